"""The history: its bounds, expired and unknown ids, and a store that fails."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.errors import ExpiredTranslation, Unavailable, UnknownTranslation
from server.history import persistent
from server.history.memory import History
from server.history.persistent import PersistentHistory
from server.history.records import LegRecord, SentenceRecord, TranslationRecord, creation_time, new_id
from tests.support.in_process import wait_for


def record(text: str = "Hello", now: float | None = None) -> TranslationRecord:
    leg = LegRecord("toy", "en", "de", (SentenceRecord(text, (1, 2, 3), (4, 5)),))
    return TranslationRecord(new_id(now), time.time(), (leg,))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def find(history: History, id: str) -> TranslationRecord:
    return asyncio.run(history.find(id))


def test_a_record_is_found_by_its_id():
    history = History(10, 1_000_000, 60)
    kept = record()
    history.add(kept)
    assert find(history, kept.id) == kept
    assert (history.hits, history.misses) == (1, 0)


def test_records_are_bounded_by_number_bytes_and_age():
    clock = Clock()
    history = History(3, 1_000_000, 60, clock=clock)
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
    small = History(100, 5_000, 60)
    for _ in range(50):
        small.add(record("x" * 500))
    assert 1 <= len(small) <= 4


def test_a_jump_of_the_wall_clock_expires_no_record(monkeypatch):
    history = History(10, 1_000_000, 60, Clock())
    kept = record()
    history.add(kept)
    future = time.time() + 10_000_000
    monkeypatch.setattr("time.time", lambda: future)
    assert find(history, kept.id) == kept


@pytest.mark.parametrize("id", ["", "x", "0" * 25, "8" + "0" * 25, "../../etc/passwd", "0" * 25 + "I", "é" * 26])
def test_a_text_that_is_not_an_id_is_unknown(id):
    with pytest.raises(UnknownTranslation):
        find(History(10, 1_000_000, 60), id)


@given(st.floats(0, 2**47 / 1000))
def test_an_id_embeds_its_creation_time(moment):
    assert creation_time(new_id(moment)) == pytest.approx(moment, abs=0.002)


def test_ids_are_distinct_and_sort_by_time():
    ids = [new_id(moment) for moment in range(1_000, 1_200)]
    assert ids == sorted(ids)
    assert len({new_id(5) for _ in range(1_000)}) == 1_000


class BrokenStore:
    """Raises OSError for the first `failing` calls."""

    def __init__(self, failing: int) -> None:
        self.failing = failing
        self.records: dict[str, TranslationRecord] = {}

    def open(self) -> None:
        pass

    def write(self, records) -> None:
        self._fail()
        self.records |= {record.id: record for record in records}

    def read(self, id: str) -> TranslationRecord | None:
        self._fail()
        return self.records.get(id)

    def close(self) -> None:
        self._fail()

    def _fail(self) -> None:
        self.failing -= 1
        if self.failing >= 0:
            raise OSError("the disk is full")


def test_records_are_written_when_a_failing_store_recovers(monkeypatch, caplog):
    monkeypatch.setattr(persistent, "RETRY_SECONDS", 0.01)
    store = BrokenStore(failing=3)
    history = PersistentHistory(store, 100, 1_000_000, 60)
    kept = [record(f"Secret {i}") for i in range(20)]
    for one in kept:
        history.add(one)
    wait_for(lambda: len(store.records) == 20)
    asyncio.run(history.close())
    assert history.errors == 3
    assert [line.levelname for line in caplog.records] == ["WARNING"]  # one line for all attempts
    assert "Secret" not in caplog.text


def test_records_that_wait_for_a_failing_store_are_bounded():
    history = PersistentHistory(BrokenStore(failing=10_000), 10_000, 20_000, 60)
    for _ in range(200):
        history.add(record("x" * 1_000))
    asyncio.run(history.close())
    waiting = sum(one.size for one in history._pending)
    assert 0 < waiting <= 20_000
    assert history.errors >= 180


def test_an_unreadable_store_is_unavailable_rather_than_expired(monkeypatch):
    monkeypatch.setattr(persistent, "RETRY_SECONDS", 3_600.0)
    store = BrokenStore(failing=1)
    history = PersistentHistory(store, 100, 1_000_000, 60)
    kept = record()
    store.records[kept.id] = kept
    for _ in range(2):  # the second look-up falls into the pause and does not reach the store
        with pytest.raises(Unavailable):
            find(history, kept.id)
    with pytest.raises(UnknownTranslation):
        find(history, "no id")
    history._paused_until = 0.0
    assert find(history, kept.id) == kept
    asyncio.run(history.close())
