"""The store: what SQLite and Redis do alike."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from server.errors import SettingsError, StateUnreachable
from server.store import sqlite
from server.store.interface import Bounds, Store
from server.store.sqlite import FILE_NAME, SQLiteStore

MANY = 1_000_000


def ids(names: str) -> list[tuple[str, bytes]]:
    return [(name, name.encode() * 100) for name in names]


async def kept(store: Store, names: str) -> str:
    return "".join([name for name in names if await store.find("history", name)])


async def test_records_of_a_table_are_written_read_and_deleted(any_store):
    async with any_store() as store:
        assert (await store.read("t", "a"), await store.read_all("t"), await store.version("t")) == (None, {}, "")
        assert await store.write({"t": {"a": b"1", "b": b"2"}, "other": {"a": b"3"}})
        assert await store.read_all("t") == {"a": b"1", "b": b"2"}
        first = await store.version("t")
        assert await store.write({"t": {"a": None, "b": b"4"}})
        assert await store.read_all("t") == {"b": b"4"}
        assert await store.read("other", "a") == b"3"
        assert await store.version("t") != first != ""


async def test_a_renewed_record_outlives_the_one_before_it(any_store):
    """Also where the next record removes the oldest, and where the one before has expired and was not removed yet."""
    async with any_store() as store:
        await store.add("history", [("a", b"1"), ("b", b"1")], Bounds(2, MANY, 60))
        await store.add("history", [("a", b"22")], Bounds(2, MANY, 60))
        await store.add("history", [("c", b"1")], Bounds(2, MANY, 60))
        assert [await store.find("history", id) for id in "abc"] == [b"22", None, b"1"]
        await store.add("history", [("d", b"1")], Bounds(2, MANY, 1))
        await asyncio.sleep(1.1)
        await store.add("history", [("d", b"22")], Bounds(2, MANY, 1))
        assert await store.find("history", "d") == b"22"


async def test_the_oldest_record_goes_first_however_fast_they_were_written(any_store):
    async with any_store() as store:
        for names in ("zy", "xw", "vu", "ts", "rq", "po", "nm"):
            await store.add("history", ids(names), Bounds(3, MANY, 60))
        assert await kept(store, "nmop") == "nmo"


async def test_a_write_over_an_older_version_changes_nothing(any_store):
    async with any_store() as store:
        assert await store.write({"t": {"a": b"1"}}, {"t": ""})
        version = await store.version("t")
        assert not await store.write({"t": {"a": b"2"}, "u": {"a": b"2"}}, {"t": ""})
        assert await store.read("t", "a") == b"1" and await store.read("u", "a") is None
        outcomes = await asyncio.gather(*[store.write({"t": {"a": b"%d" % i}}, {"t": version}) for i in range(5)])
        assert outcomes.count(True) == 1


async def test_counts_are_added(any_store):
    async with any_store() as store:
        for _ in range(3):
            await store.increase("usage", {"a": 5, "": 1})
        assert await store.read_all("usage") == {"a": b"15", "": b"3"}


async def test_a_collection_is_bounded_by_number(any_store):
    async with any_store() as store:
        for names in ("ab", "ab", "c", "defg", "efg"):
            await store.add("history", ids(names), Bounds(3, MANY, 60))
        assert await kept(store, "abcdefg") == "efg"


async def test_a_collection_is_bounded_by_bytes(any_store):
    async with any_store() as store:
        for names in ("ab", "c", "defghijklmnop"):
            await store.add("history", ids(names), Bounds(MANY, 1_400 if store.shared else 4_000, 60))
        newest = await kept(store, "abcdefghijklmnop")
        assert 2 <= len(newest) < 16 and "abcdefghijklmnop".endswith(newest)


async def test_records_of_a_collection_expire(any_store):
    async with any_store() as store:
        await store.add("history", ids("a"), Bounds(10, MANY, 0.05))
        await asyncio.sleep(0.1)
        await store.add("history", ids("b"), Bounds(10, MANY, 60))
        assert await kept(store, "ab") == "b"


async def test_a_task_that_fails_does_not_end_the_others(any_store, monkeypatch):
    monkeypatch.setattr("server.store.interface.BEAT_SECONDS", 0.01)

    async with any_store() as store:
        counted = asyncio.Semaphore(0)

        async def fails(error: Exception) -> None:
            raise error

        async def counts() -> None:
            counted.release()

        store.at_every_beat(lambda: fails(RuntimeError()))
        store.at_every_beat(lambda: fails(StateUnreachable()))
        store.at_every_beat(counts)
        await store.start()
        for _ in range(3):
            await counted.acquire()


# -- SQLite ------------------------------------------------------------------------------------------------------------


async def test_the_file_stays_within_the_bytes_of_a_collection(tmp_path: Path):
    store = SQLiteStore(tmp_path)
    for number in range(40):
        records = [(f"{number} {i}", bytes(4_000 if i % 2 else 100)) for i in range(50)]
        await store.add("history", records, Bounds(MANY, MANY, 60))
    size = sum([path.stat().st_size for path in list(tmp_path.iterdir())])  # noqa: ASYNC240
    assert await store.find("history", "39 49")
    assert MANY // 4 < size < MANY + sqlite.LOG_PAGES * sqlite.PAGE_BYTES + 500_000
    await store.stop()


async def test_a_locked_file_fails_and_works_again(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sqlite, "LOCK_SECONDS", 0.01)

    store = SQLiteStore(tmp_path)
    other = sqlite3.connect(tmp_path / FILE_NAME)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(StateUnreachable):
            await store.write({"t": {"a": b"1"}})
    assert await store.read("t", "a") is None
    other.rollback()
    assert await store.write({"t": {"a": b"1"}})
    await store.stop()
    assert caplog.text.count("cannot be used") == 1


@pytest.mark.parametrize("seed", range(10))
async def test_a_full_disk_is_logged_once_with_the_remedy_and_read_meanwhile(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    rng, store = random.Random(seed), SQLiteStore(tmp_path)
    assert await store.write({"t": {"a": b"1"}})
    pages = store.database.execute("PRAGMA page_count").fetchone()[0]
    store.database.execute(f"PRAGMA max_page_count = {pages}")
    large = {"t": {"large": bytes(1_000_000)}}
    with pytest.raises(StateUnreachable):
        await store.write(large)
    for _ in range(20):
        if rng.random() < 0.5:
            assert await store.read("t", "a") == b"1"
        else:
            with pytest.raises(StateUnreachable, match="data folder"):
                await store.write(large)
        assert not store.up
    assert caplog.text.count("cannot be used") == 1 and "free some on the disks" in caplog.text
    store.database.execute(f"PRAGMA max_page_count = {pages + 1_000}")
    assert await store.write(large) and store.up
    await store.stop()


def test_a_file_of_a_newer_version_stops_the_start(tmp_path):
    asyncio.run(SQLiteStore(tmp_path).stop())
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        database.execute(f"PRAGMA user_version={sqlite.SCHEMA_VERSION + 1}")
    with pytest.raises(SettingsError, match="newer version"):
        SQLiteStore(tmp_path)


def test_data_of_another_user_names_owner_mode_and_remedy():
    folder = Path(tempfile.mkdtemp())  # that of pytest can be entered only by its owner
    folder.chmod(0o555)
    user = os.geteuid()
    other = user or 12345
    os.seteuid(other)
    try:
        with pytest.raises(SettingsError) as caught:
            SQLiteStore(folder)
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)
    owner = f"{folder} belongs to user {user} and group {os.getegid()} with mode 555"
    assert f"{owner}, and the server runs as user {other}" in str(caught.value)
    assert str(caught.value).endswith(f"or chown -R {other} {folder}.")
