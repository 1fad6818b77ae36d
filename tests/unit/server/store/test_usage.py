"""The usage of keys: over all servers, over restarts, and neither lost nor counted twice in an outage."""

from __future__ import annotations

import asyncio

import pytest

from server.__main__ import main
from server.errors import StateUnreachable
from server.store.redis import RedisStore
from server.store.redis_connection import connect
from server.store.usage import Usage
from tests.support.in_process import wait_for
from tests.support.ports import free_port

HELLO = {"q": "Hello", "source": "en", "target": "de"}


def used(client, **key: str) -> int:
    answer = client.get("/v2/usage", params={"auth_key": key["api_key"]} if key else {})
    assert answer.status_code == 200
    return answer.json()["character_count"]


def test_usage_counts_the_characters_of_all_servers(serve, redis, capsys):
    assert main(["keys", "create", "Ann", "--state", redis]) == 0
    key = {"api_key": capsys.readouterr().out.strip()}
    clients = [serve(state=redis) for _ in range(2)]
    for client in clients:
        assert client.post("/translate", json=HELLO | key).status_code == 200
        assert client.post("/translate", json=HELLO | {"q": "Hi"}).status_code == 200
    for client in clients:
        wait_for(lambda client=client: (used(client, **key), used(client)) == (10, 4))


def test_usage_is_kept_over_a_restart(redis):
    async def scenario() -> None:
        for count in (1, 2):
            state = RedisStore(connect(redis))
            usage = Usage(state)
            await state.start()
            usage.add("a", 5)
            await state.stop()
            state = RedisStore(connect(redis))
            assert await Usage(state).read("a") == 5 * count
            await state.stop()

    asyncio.run(scenario())


def test_usage_is_kept_in_the_data_folder(serve, tmp_path):
    for count in (1, 2):
        client = serve(data=tmp_path)
        assert client.post("/translate", json=HELLO).status_code == 200
        wait_for(lambda client=client, count=count: used(client) == 5 * count)


def test_a_batch_whose_answer_was_lost_is_counted_once(redis):
    async def scenario() -> None:
        state = RedisStore(connect(redis))
        usage = Usage(state)
        increase = state.increase

        async def loses_the_answer(*parts):
            await increase(*parts)
            raise StateUnreachable

        usage.add("a", 5)
        state.increase = loses_the_answer
        with pytest.raises(StateUnreachable):
            await usage.flush()
        usage.add("a", 1)
        state.increase = increase
        for _ in range(3):
            await usage.flush()
        assert await usage.read("a") == 6
        await state.stop()

    asyncio.run(scenario())


def test_a_server_leaves_one_key_in_redis_beside_the_counts(redis):
    async def scenario() -> None:
        state = RedisStore(connect(redis))
        usage = Usage(state)
        for _ in range(3):
            usage.add("a", 5)
            await usage.flush()
        assert await state.execute("DBSIZE") == 2
        assert await usage.read("a") == 15
        await state.stop()

    asyncio.run(scenario())


def test_without_redis_requests_are_served_and_usage_is_unavailable(serve):
    client = serve(state=f"redis://127.0.0.1:{free_port()}")
    assert client.post("/translate", json=HELLO).status_code == 200
    answer = client.get("/v2/usage")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json() == {"message": "The usage cannot be read now; try again later."}
