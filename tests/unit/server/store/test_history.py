"""The history: its bounds, expired and unknown ids, and a store that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.config import Settings
from server.errors import ExpiredTranslation, SettingsError, StateUnreachable, Unavailable, UnknownTranslation
from server.store.history import MIN_BYTES, History, open_history
from server.store.history_records import LegRecord, SentenceRecord, TranslationRecord, creation_time, new_id
from server.store.interface import Bounds
from server.store.sqlite import SQLiteStore


def record(text: str = "Hello", now: float | None = None) -> TranslationRecord:
    leg = LegRecord("toy", "en", "de", (SentenceRecord(text, (1, 2, 3), (4, 5)),))
    return TranslationRecord(new_id(now), time.time(), (leg,))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def memory(size: int, limit: int, clock=time.monotonic) -> History:
    return History(SQLiteStore(None), Bounds(size, limit, 60), clock)


def find(history: History, id: str) -> TranslationRecord:
    return asyncio.run(history.find(id))


def test_a_record_is_found_by_its_id():
    history = memory(10, 1_000_000)
    kept = record()
    history.add(kept)
    assert find(history, kept.id) == kept
    assert (history.hits, history.misses) == (1, 0)


def test_records_are_bounded_by_number_bytes_and_age():
    clock = Clock()
    history = memory(3, 1_000_000, clock)
    kept = [record() for _ in range(5)]
    for one in kept:
        history.add(one)
    assert len(history) == 3
    with pytest.raises(ExpiredTranslation):
        find(history, kept[0].id)
    assert find(history, kept[4].id) == kept[4]
    clock.now += 61
    with pytest.raises(ExpiredTranslation, match="no longer kept"):
        find(history, kept[4].id)
    assert len(history) == 0
    small = memory(100, 5_000)
    for _ in range(50):
        small.add(record("x" * 500))
    assert 1 <= len(small) <= 4


def test_a_jump_of_the_wall_clock_expires_no_record(monkeypatch):
    history = memory(10, 1_000_000, Clock())
    kept = record()
    history.add(kept)
    future = time.time() + 10_000_000
    monkeypatch.setattr("time.time", lambda: future)
    assert find(history, kept.id) == kept


@pytest.mark.parametrize("id", ["", "x", "0" * 25, "8" + "0" * 25, "../../etc/passwd", "0" * 25 + "I", "é" * 26])
def test_a_text_that_is_not_an_id_is_unknown(id):
    with pytest.raises(UnknownTranslation):
        find(memory(10, 1_000_000), id)


@given(st.floats(0, 2**47 / 1000))
def test_an_id_embeds_its_creation_time(moment):
    assert creation_time(new_id(moment)) == pytest.approx(moment, abs=0.002)


def test_ids_are_distinct_and_sort_by_time():
    ids = [new_id(moment) for moment in range(1_000, 1_200)]
    assert ids == sorted(ids)
    assert len({new_id(5) for _ in range(1_000)}) == 1_000


@pytest.fixture
def store(tmp_path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path)
    yield store
    asyncio.run(store.stop())


class Failing:
    """A permanent store that fails while `failing` is set."""

    shared = False
    permanent = True

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self.failing = True

    def at_every_beat(self, task) -> None:
        pass

    async def add(self, *arguments) -> None:
        self._check()
        await self._store.add(*arguments)

    async def find(self, *arguments) -> bytes | None:
        self._check()
        return await self._store.find(*arguments)

    def _check(self) -> None:
        if self.failing:
            raise StateUnreachable


def test_records_survive_a_restart(store):
    async def scenario() -> None:
        records = [record(f"Text {i} äöü") for i in range(20)]
        first = History(store, Bounds(10, 1_000_000, 60))
        for one in records:
            first.add(one)
        await first.close()
        second = History(store, Bounds(10, 1_000_000, 60))
        assert await second.find(records[19].id) == records[19]
        with pytest.raises(ExpiredTranslation):
            await second.find(records[0].id)

    asyncio.run(scenario())


def test_records_are_written_when_a_failing_store_recovers(store):
    async def scenario() -> None:
        failing = Failing(store)
        history = History(failing, Bounds(100, 1_000_000, 60))
        records = [record(f"Text {i}") for i in range(20)]
        for one in records:
            history.add(one)
        await history.flush()
        assert history.errors == 1
        assert [await history.find(one.id) for one in records] == records
        failing.failing = False
        await history.close()
        assert [await History(store, history.bounds).find(one.id) for one in records] == records

    asyncio.run(scenario())


def test_records_that_wait_for_a_failing_store_are_bounded(store):
    async def scenario() -> None:
        history = History(Failing(store), Bounds(10_000, 20_000, 60))
        for _ in range(200):
            history.add(record("x" * 1_000))
        await history.flush()
        assert 0 < sum(one.size for one in history._pending) <= 20_000
        assert history.errors >= 180

    asyncio.run(scenario())


def test_an_unreadable_store_is_unavailable_rather_than_expired(store):
    async def scenario() -> None:
        failing = Failing(store)
        history = History(failing, Bounds(100, 1_000_000, 60))
        with pytest.raises(Unavailable):
            await history.find(new_id())
        with pytest.raises(UnknownTranslation):
            await history.find("no id")
        failing.failing = False
        with pytest.raises(ExpiredTranslation):
            await history.find(new_id())

    asyncio.run(scenario())


def test_a_damaged_record_is_not_found(store):
    async def scenario() -> None:
        id = new_id()
        await store.add("history", [(id, b"{}")], Bounds(10, 1_000_000, 60))
        with pytest.raises(ExpiredTranslation):
            await History(store, Bounds(10, 1_000_000, 60)).find(id)

    asyncio.run(scenario())


def test_a_limit_below_that_of_an_empty_database_is_a_setting_error(store):
    with pytest.raises(SettingsError, match="ATTENTIVE_HISTORY_BYTES"):
        open_history(Settings(history_bytes=MIN_BYTES - 1), store)
    assert open_history(Settings(history=False), store) is None
