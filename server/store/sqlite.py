"""The store in SQLite: one file of the data folder, or memory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from server.errors import SettingsError, StateUnreachable
from server.store.beats import Beats
from server.store.interface import Bounds, Changes
from server.store.old_data import GLOSSARIES, KEYS, import_old_data

log = logging.getLogger(__name__)
FILE_NAME = "attentive.sqlite3"
SCHEMA_VERSION = 1
"""Stored as `user_version`. A change of SCHEMA adds a step to `SQLiteStore._migrate`."""
SCHEMA = """
CREATE TABLE records (name TEXT, id TEXT, value BLOB NOT NULL, PRIMARY KEY (name, id));
CREATE TABLE versions (name TEXT PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE expiring (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, id TEXT NOT NULL, expires REAL NOT NULL, bytes INTEGER NOT NULL,
    value BLOB NOT NULL, UNIQUE (name, id)
);
CREATE INDEX by_order ON expiring (name, number, expires, bytes);
"""
LOCK_SECONDS = 2.0
PAGE_BYTES = 4096
RECORD_BYTES = 200
"""Bytes of an expiring record in the file beside its value."""
LARGEST_SHARE = 8
"""A record over this share of the bound of its collection is not stored."""
LOG_PAGES = 250
"""Pages of the write-ahead log that are moved into the database."""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
CANNOT_BE_USED = "The data folder cannot be used now; try again later."
Result = TypeVar("Result")


class SQLiteStore:
    """A Store of one file, which several processes may use, or of memory without a folder.

    Raises SettingsError where the file cannot be opened or is damaged. A damaged file is not replaced by an empty one,
    because a server without its keys would accept every caller.
    """

    shared = False

    def __init__(self, folder: Path | None) -> None:
        self.permanent = folder is not None
        self.errors = 0
        self._failing = False
        self._lock = threading.Lock()
        self._beats = Beats()
        path = ":memory:"
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / FILE_NAME
                file.touch(mode=0o600)
                path = str(file)
            self._database = self._connect(path)
            self._migrate(folder)
            self._database.execute("PRAGMA incremental_vacuum").fetchall()
            # Versions are read in the event loop, on a connection that no other thread locks.
            self._reader = self._connect(path) if folder is not None else self._database
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SettingsError(
                f"--data (ATTENTIVE_DATA): {FILE_NAME} in {str(folder)!r} cannot be opened: {reason}."
            ) from None

    def at_every_beat(self, task: Callable[[], Awaitable[None]]) -> None:
        """Implements Store."""
        self._beats.add(task)

    async def start(self) -> None:
        """Implements Store."""
        self._beats.start(self._beats.run)

    async def stop(self) -> None:
        """Implements Store."""
        await self._beats.stop()
        self._reader.close()
        await asyncio.to_thread(self._close)

    async def version(self, table: str) -> str:
        """Implements Store."""
        try:
            row = self._reader.execute("SELECT version FROM versions WHERE name = ?", (table,)).fetchone()
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return str(row[0]) if row else ""

    async def read(self, table: str, id: str) -> bytes | None:
        """Implements Store."""
        return await self._run(first, "SELECT value FROM records WHERE name = ? AND id = ?", table, id, begin="BEGIN")

    async def read_all(self, table: str) -> dict[str, bytes]:
        """Implements Store."""

        return await self._run(select, table, begin="BEGIN")

    async def write(self, changes: Changes, versions: Mapping[str, str] | None = None) -> bool:
        """Implements Store."""
        return await self._run(write, changes, versions or {})

    async def increase(self, table: str, amounts: Mapping[str, int], batch: str) -> None:
        """Implements Store. A transaction has failed or not, so that `batch` is not needed."""
        await self._run(increase, table, amounts)

    async def find(self, collection: str, id: str) -> bytes | None:
        """Implements Store."""
        query = "SELECT value FROM expiring WHERE name = ? AND id = ? AND expires > ?"
        return await self._run(first, query, collection, id, time.time(), begin="BEGIN")

    async def add(self, collection: str, records: Sequence[tuple[str, bytes]], bounds: Bounds) -> None:
        """Implements Store. The file has a margin: its records occupy at most half of the bound."""
        await self._run(add, collection, records, bounds)

    # -- the database --------------------------------------------------------------------------------------------------

    def _connect(self, path: str) -> sqlite3.Connection:
        # One thread at a time uses the connection, and not always the same.
        database = sqlite3.connect(path, timeout=LOCK_SECONDS, check_same_thread=False, isolation_level=None)
        database.execute("PRAGMA auto_vacuum=INCREMENTAL")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
        database.execute(f"PRAGMA journal_size_limit={LOG_PAGES * PAGE_BYTES}")
        return database

    def _migrate(self, folder: Path | None) -> None:
        """Brings the file to SCHEMA_VERSION. Raises SettingsError for a file of a newer version."""
        with transaction(self._database):
            version: int = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise SettingsError(f"{FILE_NAME} in {str(folder)!r} was written by a newer version of this server.")
            if version == 0:
                for statement in filter(str.strip, SCHEMA.split(";")):
                    self._database.execute(statement)
                if folder is not None:
                    import_old_data(self._database, folder)
                self._database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    async def _run(
        self, operation: Callable[..., Result], *arguments: object, begin: str = "BEGIN IMMEDIATE"
    ) -> Result:
        """Returns the result of `operation(database, *arguments)`, which runs in a thread as one transaction."""
        return await asyncio.shield(asyncio.to_thread(self._transact, begin, operation, *arguments))

    def _transact(self, begin: str, operation: Callable[..., Result], *arguments: object) -> Result:
        with self._lock:
            try:
                with transaction(self._database, begin):
                    result = operation(self._database, *arguments)
            except (sqlite3.Error, OSError) as error:
                raise self._failure(error) from error
        if self._failing:
            self._failing = False
            log.info("the data folder can be used again")
        return result

    def _failure(self, error: Exception) -> StateUnreachable:
        """Counts a failure and returns the error for callers."""
        self.errors += 1
        if not self._failing:
            self._failing = True
            damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED
            log.log(logging.ERROR if damaged else logging.WARNING, "%s cannot be used: %s", FILE_NAME, str(error)[:200])
        return StateUnreachable(CANNOT_BE_USED)

    def _close(self) -> None:
        with self._lock, contextlib.suppress(sqlite3.Error):  # an earlier failure was logged already
            self._database.close()


def holds_data(folder: Path) -> bool:
    """Returns whether a folder has a database of this version, or keys or glossaries of an earlier one."""
    return any((folder / name).exists() for name in (FILE_NAME, KEYS, GLOSSARIES))


@contextlib.contextmanager
def transaction(database: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """`with`: all changes of the block are stored, or none."""
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # a full disk may have ended it
            database.execute("ROLLBACK")
        raise


def first(database: sqlite3.Connection, query: str, *values: object) -> bytes | None:
    """Returns the first value of a query, or None."""
    row = database.execute(query, values).fetchone()
    return row[0] if row else None


def select(database: sqlite3.Connection, table: str) -> dict[str, bytes]:
    """Implements `Store.read_all`."""
    return dict(database.execute("SELECT id, value FROM records WHERE name = ?", (table,)).fetchall())


def write(database: sqlite3.Connection, changes: Changes, versions: Mapping[str, str]) -> bool:
    """Implements `Store.write`."""
    for table, version in versions.items():
        row = database.execute("SELECT version FROM versions WHERE name = ?", (table,)).fetchone()
        if (str(row[0]) if row else "") != version:
            return False
    for table, records in changes.items():
        deleted = [(table, id) for id, value in records.items() if value is None]
        written = [(table, id, value) for id, value in records.items() if value is not None]
        database.executemany("DELETE FROM records WHERE name = ? AND id = ?", deleted)
        database.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", written)
        database.execute(
            "INSERT INTO versions VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET version = version + 1", (table,)
        )
    return True


def increase(database: sqlite3.Connection, table: str, amounts: Mapping[str, int]) -> None:
    """Implements `Store.increase`."""
    for id, amount in amounts.items():
        before = first(database, "SELECT value FROM records WHERE name = ? AND id = ?", table, id)
        total = int(before or 0) + amount
        database.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", (table, id, b"%d" % total))


def add(database: sqlite3.Connection, collection: str, records: Sequence[tuple[str, bytes]], bounds: Bounds) -> None:
    """Implements `Store.add`."""
    now = time.time()
    rows = [(collection, id, now + bounds.seconds, occupied(value), value) for id, value in records]
    rows = [row for row in rows if row[3] <= bounds.bytes // LARGEST_SHARE]
    database.executemany(
        "INSERT OR REPLACE INTO expiring (name, id, expires, bytes, value) VALUES (?, ?, ?, ?, ?)", rows
    )
    database.execute("DELETE FROM expiring WHERE name = ? AND expires <= ?", (collection, now))
    # The newest records within the bounds stay: the sums run from the newest to the oldest.
    oldest = database.execute(
        "SELECT number FROM (SELECT number, ROW_NUMBER() OVER newest AS count, SUM(bytes) OVER newest AS total "
        "FROM expiring WHERE name = ? WINDOW newest AS (ORDER BY number DESC)) WHERE count > ? OR total > ? LIMIT 1",
        (collection, bounds.size, bounds.bytes // 2),
    ).fetchone()
    if oldest:
        database.execute("DELETE FROM expiring WHERE name = ? AND number <= ?", (collection, oldest[0]))


def occupied(value: bytes) -> int:
    """Returns about how many bytes of the file an expiring record occupies; a large one has its own pages."""
    size = RECORD_BYTES + len(value)
    return size if size < PAGE_BYTES // 4 else -(-size // (PAGE_BYTES - 100)) * PAGE_BYTES
