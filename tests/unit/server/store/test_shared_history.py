"""The history in Redis: shared by servers, bounded, and without effect on translations while Redis is unreachable."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import redis as redis_client

from server.errors import ExpiredTranslation, Unavailable
from server.store.history import History
from server.store.history_records import TranslationRecord, new_id
from server.store.interface import Bounds
from server.store.redis import RedisStore, name_of
from server.store.redis_connection import connect
from tests.support.ports import free_port
from tests.unit.server.conftest import running_redis
from tests.unit.server.store.test_history import record

PREFIX = name_of("history") + ":"
HELLO = {"q": "Hello", "source": "en", "target": "de"}


@pytest.fixture
def client(redis) -> Iterator[redis_client.Redis]:
    """A client that looks at what is stored."""
    with redis_client.Redis.from_url(redis) as made:
        yield made


def records(count: int, text: str = "Hello") -> list[TranslationRecord]:
    """Returns records with increasing ids, oldest first. The last one is the longest."""
    made = [record(f"{text} {i}", now=1_000_000 + i) for i in range(count)]
    return [dataclasses.replace(one, created=1_000_000.0) for one in made]


@asynccontextmanager
async def history_of(
    url: str, size: int = 10, bytes_limit: int = 1_000_000, seconds: float = 60.0
) -> AsyncIterator[History]:
    """A history whose server has started."""
    state = RedisStore(connect(url))
    history = History(state, Bounds(size, bytes_limit, seconds))
    await state.start()
    yield history
    await history.close()
    await state.stop()


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110  Redis has no event for this
            await asyncio.sleep(0.01)


def test_a_record_of_one_server_is_read_by_another(redis):
    async def scenario() -> None:
        async with history_of(redis) as writer, history_of(redis) as reader:
            kept = record("äöü")
            writer.add(kept)
            assert await reader.find(kept.id) == kept  # at once, although it is written in the background
            with pytest.raises(ExpiredTranslation):
                await reader.find(new_id(now=1_000_000))

    asyncio.run(scenario())


def test_translations_of_one_server_are_found_by_another(serve, redis):
    first, second = (serve(state=redis) for _ in range(2))
    id = first.post("/translate", json=HELLO).json()["id"]
    for client in (second, first):
        assert client.get("/attention", params={"id": id}).status_code == 200


@pytest.mark.slow
def test_records_are_written_after_an_outage(tmp_path):
    """Redis starts after the servers, stops and starts again, while translations are recorded."""

    async def scenario() -> None:
        port = free_port()
        url = f"redis://127.0.0.1:{port}"
        made = records(2)
        async with history_of(url) as first, history_of(url) as second:

            async def is_shared(one: TranslationRecord) -> bool:
                try:
                    return await second.find(one.id) == one
                except (Unavailable, ExpiredTranslation):
                    return False

            for one in made:
                first.add(one)
                with pytest.raises(Unavailable):
                    await second.find(one.id)
                assert await first.find(one.id) == one
                with running_redis(tmp_path, port):
                    await until(lambda one=one: is_shared(one))

                async def is_down() -> bool:
                    return not (first._store.up or second._store.up)

                await until(is_down)

    asyncio.run(scenario())


def test_records_that_wait_for_redis_are_bounded():
    async def scenario() -> None:
        async with history_of(f"redis://127.0.0.1:{free_port()}", 10_000, 20_000) as history:
            for _ in range(200):
                history.add(record("x" * 1_000))
            assert 0 < sum(one.size for one in history._pending) <= 20_000
            assert history.errors >= 180

    asyncio.run(scenario())


def test_a_damaged_record_is_none(client, redis):
    async def scenario() -> None:
        async with history_of(redis) as history:
            id = new_id(now=1_000_000)
            client.set(PREFIX + id, b"[1]")
            with pytest.raises(ExpiredTranslation):
                await history.find(id)

    asyncio.run(scenario())


def test_translations_are_served_without_redis(serve, caplog):
    client = serve(state=f"redis://:hunter2@127.0.0.1:{free_port()}")
    id = client.post("/translate", json=HELLO).json()["id"]
    assert client.get("/attention", params={"id": id}).status_code == 200
    answer = client.get("/attention", params={"id": new_id()})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert "hunter2" not in caplog.text
    metrics = client.get("/metrics").text
    assert "attentive_history_errors_total" in metrics
    assert "attentive_state_up" in metrics


def test_the_history_can_be_switched_off(serve, redis):
    client = serve(state=redis, history=False)
    id = client.post("/translate", json=HELLO).json()["id"]
    assert client.get("/attention", params={"id": id}).status_code != 200
