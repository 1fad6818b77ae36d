"""Translated files expire, are bounded in bytes with a share for each caller, and are deleted."""

from __future__ import annotations

import asyncio

import pytest

from server.documents.store import FileStore
from server.errors import ExpiredTranslation, NotFound, Unavailable
from server.store.sqlite import SQLiteStore


def keep(store: FileStore, content: bytes, caller: str = "x") -> str:
    async def kept() -> str:
        workspace = store.new_workspace(b"")
        workspace.result.write_bytes(content)
        token = await store.keep(workspace, "a.txt", "text/plain", caller)
        workspace.remove()
        return token

    return asyncio.run(kept())


def find(store: FileStore, token: str):
    return asyncio.run(store.find(token))


def test_a_stored_file_expires(monkeypatch):
    now = [0.0]
    for clock in ("server.documents.store.monotonic", "time.time"):
        monkeypatch.setattr(clock, lambda: now[0])
    store = FileStore(SQLiteStore(None), None, 10.0, 1_000)
    token = keep(store, b"x")
    path = find(store, token).content
    assert path.read_bytes() == b"x"
    now[0] = 10.5
    with pytest.raises(ExpiredTranslation, match="no longer kept"):
        find(store, token)
    assert not path.exists()
    for unknown in ("unknown", "f" * 40):  # the second says that it was issued in the future
        with pytest.raises(NotFound):
            find(store, unknown)
    asyncio.run(store.close())


def test_the_oldest_file_of_the_largest_holder_is_deleted_first():
    store = FileStore(SQLiteStore(None), None, 1_000.0, 100)
    other = keep(store, b"x" * 30, "other")
    tokens = [keep(store, b"x" * 40, "hog") for _ in range(3)]
    with pytest.raises(ExpiredTranslation):
        find(store, tokens[0])
    assert len(find(store, other).content.read_bytes()) == 30
    path = find(store, tokens[2]).content
    asyncio.run(store.close())
    assert not path.parent.exists()


def test_a_full_disk_is_reported_as_unavailable_and_logged(monkeypatch, caplog):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    store = FileStore(SQLiteStore(None), None, 1.0, 1)
    with pytest.raises(Unavailable, match="No space left on device"):
        store.new_workspace(b"x")
    assert "No space left on device" in caplog.text
    asyncio.run(store.close())


async def test_a_record_behind_one_that_is_kept_longer_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    for clock in ("server.documents.store.monotonic", "time.time"):
        monkeypatch.setattr(clock, lambda: now[0])
    records = SQLiteStore(None)
    await records.put("jobs", "long", b"1", 100.0)
    await records.put("servers", "short", b"2", 1.0)
    now[0] = 2.0
    assert await records.find("servers", "short") is None
    assert await records.find("jobs", "long") == b"1"
