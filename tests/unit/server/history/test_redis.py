"""The history in Redis: shared by servers, bounded, and never in the way of a translation."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterator

import fakeredis
import pytest
import redis as redis_client

from server.config import Settings
from server.errors import ExpiredTranslation, SettingsError
from server.history.open_history import open_history
from server.history.persistent import PersistentHistory
from server.history.records import TranslationRecord, new_id, serialize
from server.history.redis import BYTES, INDEX, PREFIX, RedisStore, connect
from tests.support.in_process import wait_for
from tests.support.live import free_port
from tests.unit.server.conftest import running_redis
from tests.unit.server.history.test_history import find, record

HELLO = {"q": "Hello", "source": "en", "target": "de"}


@pytest.fixture(params=["imitated", "real"])
def client(request) -> Iterator[redis_client.Redis]:
    """A Redis imitated in this process, and a real one where it is installed."""
    if request.param == "imitated":
        yield fakeredis.FakeRedis()
    else:
        with connect(request.getfixturevalue("redis")) as made:
            yield made


def records(count: int, text: str = "Hello") -> list[TranslationRecord]:
    """Records whose ids differ in time, oldest first; none is longer than the last."""
    made = [record(f"{text} {i}", now=1_000_000 + i) for i in range(count)]
    return [dataclasses.replace(one, created=1_000_000.0) for one in made]


def test_what_one_server_wrote_another_reads(client):
    writer, reader = (RedisStore(client, 10, 1_000_000, 60) for _ in range(2))
    [kept] = records(1, "äöü")
    writer.write([kept])
    assert reader.read(kept.id) == kept
    assert reader.read(record().id) is None


@pytest.mark.parametrize("at_once", [1, 7, 25])
def test_it_is_bounded_by_number(client, at_once):
    store = RedisStore(client, 5, 1_000_000, 60)
    made = records(25)
    for i in range(0, 25, at_once):
        store.write(made[i : i + at_once])
    assert [one.id for one in made if store.read(one.id)] == [one.id for one in made[20:]]
    assert client.zcard(INDEX) == 5
    assert int(client.get(BYTES)) == sum(len(serialize(one)) for one in made[20:])


def test_it_is_bounded_by_bytes(client):
    made = records(20, "x" * 500)
    store = RedisStore(client, 1_000, 3 * len(serialize(made[-1])), 60)
    for one in made:
        store.write([one])
    assert [one.id for one in made if store.read(one.id)] == [one.id for one in made[17:]]
    assert sum(client.strlen(key) for key in client.keys(PREFIX + "0*")) == int(client.get(BYTES))


def test_it_is_bounded_by_age_and_leaves_nothing_behind(client):
    store = RedisStore(client, 10, 1_000_000, 0.05)
    [kept] = records(1)
    store.write([kept])
    wait_for(lambda: store.read(kept.id) is None)
    wait_for(lambda: client.dbsize() == 0)


def test_what_expired_counts_no_longer(client):
    store, patient = RedisStore(client, 10, 1_000_000, 0.05), RedisStore(client, 10, 1_000_000, 60)
    old, new = records(2)
    store.write([old])
    wait_for(lambda: store.read(old.id) is None)
    time.sleep(0.05)
    patient.write([old, new])
    assert client.zcard(INDEX) == 2
    assert int(client.get(BYTES)) == len(serialize(old)) + len(serialize(new))


def test_writing_again_counts_once(client):
    """A write whose answer got lost is repeated."""
    store = RedisStore(client, 10, 1_000_000, 60)
    made = records(3)
    store.write(made)
    client.zremrangebyscore(INDEX, "-inf", "+inf")  # what Redis evicts under memory pressure harms nothing either
    store.write(made)
    for _ in range(2):
        store.write([])
    assert client.zcard(INDEX) == 3
    assert all(store.read(one.id) for one in made)


def test_servers_find_what_others_served(serve, redis):
    first, second = (serve(history_storage=redis) for _ in range(2))
    id = first.post("/translate", json=HELLO).json()["id"]
    wait_for(lambda: second.get("/attention", params={"id": id}).status_code == 200)
    assert first.get("/attention", params={"id": id}).json()["id"] == id


def test_an_outage_costs_no_translation_and_is_made_up_for(tmp_path):
    """Redis is not there at the start, comes, goes, and comes back: translations are recorded all the while."""
    port = free_port()
    histories = [open_history(Settings(history_storage=f"redis://127.0.0.1:{port}")) for _ in range(2)]
    first, second = (history for history in histories if isinstance(history, PersistentHistory))
    made = records(3)
    first.add(made[0])
    wait_for(lambda: first.errors >= 1)
    assert find(first, made[0].id) == made[0]
    with running_redis(tmp_path, port):
        wait_for(lambda: found(second, made[0]))
    first.add(made[1])
    assert find(first, made[1].id) == made[1]
    with running_redis(tmp_path, port):
        wait_for(lambda: found(second, made[1]))
        assert not found(second, made[2])
    for history in (first, second):
        asyncio.run(history.close())


def found(history: PersistentHistory, wanted: TranslationRecord) -> bool:
    try:
        return find(history, wanted.id) == wanted
    except Exception:  # noqa: BLE001  unavailable, or not there yet
        return False


def test_a_missing_id_is_expired_for_all(redis):
    history = open_history(Settings(history_storage=redis))
    assert history is not None
    with pytest.raises(ExpiredTranslation):
        find(history, record().id)
    asyncio.run(history.close())


def test_translations_go_on_without_redis(serve, caplog):
    client = serve(history_storage=f"redis://:hunter2@127.0.0.1:{free_port()}")
    id = client.post("/translate", json=HELLO).json()["id"]
    assert client.get("/attention", params={"id": id}).status_code == 200
    answer = client.get("/attention", params={"id": new_id()})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert "hunter2" not in caplog.text
    assert "attentive_history_errors_total" in client.get("/metrics").text


def test_an_address_that_cannot_be_is_told_at_the_start_and_not_repeated():
    with pytest.raises(SettingsError, match="history-storage") as told:
        open_history(Settings(history_storage="nonsense://:hunter2@x"))
    assert "hunter2" not in str(told.value)
