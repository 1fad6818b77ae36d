"""The history in SQLite: restarts, the bound on the bytes of its files, and damaged and deleted files."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time

import pytest

from server.config import Settings
from server.errors import ExpiredTranslation, SettingsError
from server.history import persistent, sqlite
from server.history.memory import History
from server.history.open_history import open_history
from server.history.persistent import PersistentHistory
from server.history.records import LegRecord, SentenceRecord, TranslationRecord, new_id
from server.history.sqlite import SQLiteStore
from tests.support.in_process import wait_for

LIMIT = 1_000_000


def record(text: str = "Hello") -> TranslationRecord:
    leg = LegRecord("toy", "en", "de", (SentenceRecord(text, (1, 2, 3), (4, 5)),))
    return TranslationRecord(new_id(), time.time(), (leg,))


def find(history: History, id: str) -> TranslationRecord:
    return asyncio.run(history.find(id))


def bytes_of(folder) -> int:
    return sum(file.stat().st_size for file in folder.glob("history.sqlite3*"))


def sqlite_history(folder) -> PersistentHistory:
    return PersistentHistory(SQLiteStore(folder, 10, 1_000_000, 60), 10, 1_000_000, 60)


def test_records_in_sqlite_survive_a_restart(tmp_path):
    kept = [record(f"Text {i} äöü") for i in range(20)]
    first = sqlite_history(tmp_path)
    for one in kept:
        first.add(one)
    asyncio.run(first.close())
    second = sqlite_history(tmp_path)
    assert find(second, kept[19].id) == kept[19]
    with pytest.raises(ExpiredTranslation):
        find(second, kept[0].id)
    asyncio.run(second.close())


def test_records_in_sqlite_expire_by_age(tmp_path, monkeypatch):
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)
    first = sqlite_history(tmp_path)
    kept = record()
    first.add(kept)
    asyncio.run(first.close())
    now += 61
    second = sqlite_history(tmp_path)
    with pytest.raises(ExpiredTranslation):
        find(second, kept.id)
    asyncio.run(second.close())


def test_records_are_found_in_memory_while_the_database_is_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "LOCK_SECONDS", 0.01)
    history = sqlite_history(tmp_path)
    other = sqlite3.connect(tmp_path / sqlite.FILE_NAME)
    other.execute("BEGIN EXCLUSIVE")
    kept = record()
    history.add(kept)
    assert find(history, kept.id) == kept
    asyncio.run(history.close())
    other.close()
    assert history.errors >= 1


def test_the_files_are_bounded_in_bytes(tmp_path):
    store = SQLiteStore(tmp_path, 10_000, LIMIT, 3_600)
    numbers = random.Random(1)
    largest = 0
    for _ in range(12):
        batch = [record("x" * numbers.choice((10, 4_000, 100_000, 2_000_000))) for _ in range(numbers.randint(1, 9))]
        store.write(batch)
        largest = max(largest, bytes_of(tmp_path))
    latest = [record("x" * 5_000) for _ in range(20)]
    store.write(latest)
    assert LIMIT // 4 < largest <= LIMIT
    assert [store.read(one.id) for one in latest] == latest
    store.close()


@pytest.mark.parametrize("length", [5, 5_000])
def test_the_smallest_limit_holds_records(tmp_path, length):
    store = SQLiteStore(tmp_path, 10_000, sqlite.MIN_BYTES, 3_600)
    for _ in range(6):
        latest = record("x" * length)
        store.write([record("x" * length) for _ in range(9)] + [latest])
        assert bytes_of(tmp_path) <= sqlite.MIN_BYTES
        assert store.read(latest.id) == latest
    store.close()


def test_a_limit_below_that_of_an_empty_database_is_a_setting_error(tmp_path):
    with pytest.raises(SettingsError, match="ATTENTIVE_HISTORY_BYTES"):
        open_history(Settings(data=tmp_path, history_bytes=sqlite.MIN_BYTES - 1))


def test_expired_records_give_their_bytes_back(tmp_path, monkeypatch):
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)
    store = SQLiteStore(tmp_path, 10_000, LIMIT, 60)
    for _ in range(12):
        store.write([record("x" * 14_000) for _ in range(5)])
    full = bytes_of(tmp_path)
    now += 61
    for _ in range(12):
        store.write([record()])
    store.close()
    assert full > LIMIT // 4
    assert bytes_of(tmp_path) < full // 2


def test_a_database_of_an_earlier_version_is_cut_to_the_bound(tmp_path):
    old = sqlite3.connect(tmp_path / sqlite.FILE_NAME)
    old.execute("PRAGMA journal_mode=WAL")
    old.execute(sqlite.SCHEMA)
    kept = [record("x" * 14_000) for _ in range(200)]
    with old:
        rows = [(one.id, one.created + i / 1000, sqlite.serialize(one)) for i, one in enumerate(kept)]
        old.executemany("INSERT INTO translations VALUES (?, ?, ?)", rows)
    old.close()
    assert bytes_of(tmp_path) > 2 * LIMIT
    store = SQLiteStore(tmp_path, 10_000, LIMIT, 3_600)
    assert store.read(kept[-1].id) == kept[-1]
    assert bytes_of(tmp_path) <= LIMIT
    store.close()


def test_a_damaged_database_is_set_aside_at_the_start(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(persistent, "RETRY_SECONDS", 0.01)
    damaged = b"this is no database" * 1_000
    (tmp_path / sqlite.FILE_NAME).write_bytes(damaged)
    history = open_history(Settings(data=tmp_path))
    wait_for(lambda: history.errors == 1)
    kept = record()
    history.add(kept)
    asyncio.run(history.close())
    assert "set aside" in caplog.text
    assert (tmp_path / sqlite.DAMAGED_NAME).read_bytes() == damaged
    second = sqlite_history(tmp_path)
    assert find(second, kept.id) == kept
    asyncio.run(second.close())


def test_a_database_that_is_damaged_while_it_is_used_is_set_aside(tmp_path):
    store = SQLiteStore(tmp_path, 10_000, LIMIT, 3_600)
    store.write([record("x" * 14_000) for _ in range(20)])
    store.close()
    path = tmp_path / sqlite.FILE_NAME
    store.open()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096))
    kept = record()
    with pytest.raises(sqlite3.DatabaseError):
        store.write([kept])
    store.write([kept])
    assert store.read(kept.id) == kept
    assert (tmp_path / sqlite.DAMAGED_NAME).exists()
    store.close()


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_deleted_file_is_made_again(tmp_path, suffix):
    store = SQLiteStore(tmp_path, 10_000, LIMIT, 3_600)
    store.write([record()])
    (tmp_path / (sqlite.FILE_NAME + suffix)).unlink()
    kept = record()
    with pytest.raises(sqlite3.OperationalError, match="deleted"):
        store.write([kept])
    store.write([kept])
    assert store.read(kept.id) == kept
    assert (tmp_path / sqlite.FILE_NAME).exists()
    store.close()


def test_a_deleted_data_folder_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(persistent, "RETRY_SECONDS", 0.01)
    folder = tmp_path / "data"
    history = open_history(Settings(data=folder))
    lost = record()
    history.add(lost)
    wait_for(lambda: asyncio.run(history._find_stored(lost.id)))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    kept = record()
    history.add(kept)
    wait_for(folder.exists)
    asyncio.run(history.close())
    second = open_history(Settings(data=folder))
    assert find(second, kept.id) == kept
    asyncio.run(second.close())


def test_a_damaged_record_is_not_found(tmp_path):
    store = SQLiteStore(tmp_path, 10, LIMIT, 3_600)
    kept = record()
    store.write([kept])
    other = sqlite3.connect(tmp_path / sqlite.FILE_NAME)
    with other:
        other.execute("UPDATE translations SET record = ?", (b"{}",))
    other.close()
    assert store.read(kept.id) is None
    store.close()


def test_no_history_opens_no_database(tmp_path):
    assert open_history(Settings(history=False, data=tmp_path)) is None
    assert list(tmp_path.iterdir()) == []
