"""The history in Redis: shared by servers, bounded, and without effect on translations while Redis is unreachable."""

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


@pytest.fixture(params=["fake", "real"])
def client(request) -> Iterator[redis_client.Redis]:
    """A fake Redis in this process, and a real one where it is installed."""
    if request.param == "fake":
        yield fakeredis.FakeRedis()
    else:
        with connect(request.getfixturevalue("redis")) as made:
            yield made


def records(count: int, text: str = "Hello") -> list[TranslationRecord]:
    """Returns records with increasing ids, oldest first. The last one is the longest."""
    made = [record(f"{text} {i}", now=1_000_000 + i) for i in range(count)]
    return [dataclasses.replace(one, created=1_000_000.0) for one in made]


def test_a_record_of_one_server_is_read_by_another(client):
    writer, reader = (RedisStore(client, 10, 1_000_000, 60) for _ in range(2))
    [kept] = records(1, "äöü")
    writer.write([kept])
    assert reader.read(kept.id) == kept
    assert reader.read(record().id) is None


@pytest.mark.parametrize("at_once", [1, 7, 25])
def test_records_are_bounded_by_number(client, at_once):
    store = RedisStore(client, 5, 1_000_000, 60)
    made = records(25)
    for i in range(0, 25, at_once):
        store.write(made[i : i + at_once])
    assert [one.id for one in made if store.read(one.id)] == [one.id for one in made[20:]]
    assert client.zcard(INDEX) == 5
    assert int(client.get(BYTES)) == sum(len(serialize(one)) for one in made[20:])


def test_records_are_bounded_by_bytes(client):
    made = records(20, "x" * 500)
    store = RedisStore(client, 1_000, 3 * len(serialize(made[-1])), 60)
    for one in made:
        store.write([one])
    assert [one.id for one in made if store.read(one.id)] == [one.id for one in made[17:]]
    assert sum(client.strlen(key) for key in client.keys(PREFIX + "0*")) == int(client.get(BYTES))


def test_records_expire_by_age_and_leave_no_keys(client):
    store = RedisStore(client, 10, 1_000_000, 0.05)
    [kept] = records(1)
    store.write([kept])
    wait_for(lambda: store.read(kept.id) is None)
    wait_for(lambda: client.dbsize() == 0)


def test_expired_records_are_removed_from_index_and_total(client):
    store, patient = RedisStore(client, 10, 1_000_000, 0.05), RedisStore(client, 10, 1_000_000, 60)
    old, new = records(2)
    store.write([old])
    wait_for(lambda: store.read(old.id) is None)
    time.sleep(0.05)
    patient.write([old, new])
    assert client.zcard(INDEX) == 2
    assert int(client.get(BYTES)) == len(serialize(old)) + len(serialize(new))


def test_a_record_that_is_written_twice_is_counted_once(client):
    """A write is repeated when its response is lost."""
    store = RedisStore(client, 10, 1_000_000, 60)
    made = records(3)
    store.write(made)
    client.zremrangebyscore(INDEX, "-inf", "+inf")  # as after an eviction under memory pressure
    store.write(made)
    for _ in range(2):
        store.write([])
    assert client.zcard(INDEX) == 3
    assert all(store.read(one.id) for one in made)


def test_translations_of_one_server_are_found_by_another(serve, redis):
    first, second = (serve(state=redis) for _ in range(2))
    id = first.post("/translate", json=HELLO).json()["id"]
    wait_for(lambda: second.get("/attention", params={"id": id}).status_code == 200)
    assert first.get("/attention", params={"id": id}).json()["id"] == id


@pytest.mark.slow
def test_records_are_written_after_an_outage(tmp_path):
    """Redis starts after the servers, stops and starts again, while translations are recorded."""
    port = free_port()
    histories = [open_history(Settings(state=f"redis://127.0.0.1:{port}")) for _ in range(2)]
    first, second = (history for history in histories if isinstance(history, PersistentHistory))
    made = records(3)
    first.add(made[0])
    wait_for(lambda: first.errors >= 1)
    assert find(first, made[0].id) == made[0]
    with running_redis(tmp_path, port):
        wait_for(lambda: has_record(second, made[0]))
    first.add(made[1])
    assert find(first, made[1].id) == made[1]
    with running_redis(tmp_path, port):
        wait_for(lambda: has_record(second, made[1]))
        assert not has_record(second, made[2])
    for history in (first, second):
        asyncio.run(history.close())


def has_record(history: PersistentHistory, wanted: TranslationRecord) -> bool:
    try:
        return find(history, wanted.id) == wanted
    except Exception:  # noqa: BLE001  unavailable, or not written yet
        return False


def test_an_id_without_a_record_is_expired(redis):
    history = open_history(Settings(state=redis))
    assert history is not None
    with pytest.raises(ExpiredTranslation):
        find(history, record().id)
    asyncio.run(history.close())


def test_translations_are_served_without_redis(serve, caplog):
    client = serve(state=f"redis://:hunter2@127.0.0.1:{free_port()}")
    id = client.post("/translate", json=HELLO).json()["id"]
    assert client.get("/attention", params={"id": id}).status_code == 200
    answer = client.get("/attention", params={"id": new_id()})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert "hunter2" not in caplog.text
    assert "attentive_history_errors_total" in client.get("/metrics").text


def test_an_invalid_address_is_an_error_that_does_not_quote_it():
    with pytest.raises(SettingsError, match="--state") as error:
        open_history(Settings(state="nonsense://:hunter2@x"))
    assert "hunter2" not in str(error.value)
