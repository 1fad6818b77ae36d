"""The history: bounded in every way, and able to tell an expired id from one that never was."""

from __future__ import annotations

import asyncio
import sqlite3
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server import history_store
from server.config import Settings
from server.errors import ExpiredTranslation, SettingsError, UnknownTranslation
from server.history import History, Pair, Record, ServedLeg, birth, new_id
from server.history_store import StoredHistory
from server.services import make_history


def record(text: str = "Hello", now: float | None = None) -> Record:
    leg = ServedLeg("toy", "en", "de", (Pair(text, (1, 2, 3), (4, 5)),))
    return Record(new_id(now), time.time(), (leg,))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def find(history: History, id: str) -> Record:
    return asyncio.run(history.find(id))


def test_what_was_recorded_is_found():
    history = History(10, 1_000_000, 60)
    kept = record()
    history.record(kept)
    assert find(history, kept.id) == kept
    assert (history.hits, history.misses) == (1, 0)


def test_it_is_bounded_by_number_size_and_age():
    clock = Clock()
    history = History(3, 1_000_000, 60, clock=clock)
    kept = [record() for _ in range(5)]
    for one in kept:
        history.record(one)
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
        small.record(record("x" * 500))
    assert 1 <= len(small) <= 4


def test_a_jump_of_the_wall_clock_expires_nothing():
    wall, clock = Clock(), Clock()
    history = History(10, 1_000_000, 60, wall, clock)
    kept = record()
    history.record(kept)
    wall.now += 10_000_000
    assert find(history, kept.id) == kept


@pytest.mark.parametrize("id", ["", "x", "0" * 25, "8" + "0" * 25, "../../etc/passwd", "0" * 25 + "I", "é" * 26])
def test_what_is_no_id_is_unknown(id):
    with pytest.raises(UnknownTranslation):
        find(History(10, 1_000_000, 60), id)


@given(st.floats(0, 2**47 / 1000))
def test_an_id_carries_its_birth(moment):
    assert birth(new_id(moment)) == pytest.approx(moment, abs=0.002)


def test_ids_are_distinct_and_sort_by_time():
    ids = [new_id(moment) for moment in range(1_000, 1_200)]
    assert ids == sorted(ids)
    assert len({new_id(5) for _ in range(1_000)}) == 1_000


def test_a_stored_history_survives_a_restart(tmp_path):
    kept = [record(f"Text {i} äöü") for i in range(20)]
    first = StoredHistory(tmp_path, 10, 1_000_000, 60)
    for one in kept:
        first.record(one)
    asyncio.run(first.close())
    second = StoredHistory(tmp_path, 10, 1_000_000, 60)
    assert find(second, kept[19].id) == kept[19]
    with pytest.raises(ExpiredTranslation):
        find(second, kept[0].id)
    asyncio.run(second.close())


def test_a_stored_history_forgets_by_age(tmp_path):
    wall = Clock()
    wall.now = time.time()
    first = StoredHistory(tmp_path, 10, 1_000_000, 60, wall)
    kept = record()
    first.record(kept)
    asyncio.run(first.close())
    wall.now += 61
    second = StoredHistory(tmp_path, 10, 1_000_000, 60, wall)
    with pytest.raises(ExpiredTranslation):
        find(second, kept.id)
    asyncio.run(second.close())


def test_a_locked_database_costs_no_translation(tmp_path, monkeypatch):
    monkeypatch.setattr(history_store, "LOCK_SECONDS", 0.01)
    history = StoredHistory(tmp_path, 10, 1_000_000, 60)
    other = sqlite3.connect(tmp_path / history_store.FILE)
    other.execute("BEGIN EXCLUSIVE")
    kept = record()
    history.record(kept)
    assert find(history, kept.id) == kept
    asyncio.run(history.close())
    other.close()
    assert history.errors == 1


def test_a_broken_file_is_told_at_the_start(tmp_path):
    (tmp_path / history_store.FILE).write_bytes(b"this is no database" * 100)
    with pytest.raises(SettingsError, match="ATTENTIVE_DATA"):
        make_history(Settings(data=tmp_path))
    assert make_history(Settings(history=False, data=tmp_path)) is None
