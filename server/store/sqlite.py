"""The store in SQLite: one file of the data folder, or memory."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import shlex
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from server.errors import DISK, SettingsError, StateUnreachable, exhausted, remedy
from server.store.interface import Bounds, Changes, Store

log = logging.getLogger(__name__)
FILE_NAME = "attentive.sqlite3"
OLD_FILES = "keys.json", "glossaries.sqlite3", "usage.sqlite3"
"""Keys, glossaries and usage of version 0.1."""
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
OLDEST = """
SELECT MAX(number), TOTAL(bytes) FROM (SELECT number, bytes FROM expiring WHERE name = ? ORDER BY number LIMIT ?)
"""
LOCK_SECONDS = 2.0
PAGE_BYTES = 4096
RECORD_BYTES = 200
"""Bytes of an expiring record in the file beside its value."""
LOG_PAGES = 250
"""Pages of the write-ahead log that are moved into the database."""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
RESTORE = "restore a backup, or move the file away and begin without its keys and glossaries"
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_thread(
    operation: Callable[Concatenate[SQLiteStore, Parameters], Result],
) -> Callable[Concatenate[SQLiteStore, Parameters], Coroutine[Any, Any, Result]]:
    """Makes a method a coroutine that runs in a thread, and ends a transaction that it begins."""

    def run(
        store: SQLiteStore, /, *arguments: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        with store.lock:
            try:
                with store.database:
                    result = operation(store, *arguments, **options)
                    wrote = store.database.in_transaction
            except (sqlite3.Error, OSError) as error:
                raise store.failure(error) from error
        if not store.up and (wrote or not store.full):
            store.up, store.full = True, False
            log.info("the data folder can be used again")
        return result

    @functools.wraps(operation)
    async def run_in_thread(
        store: SQLiteStore, /, *arguments: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        return await asyncio.shield(asyncio.to_thread(run, store, *arguments, **options))

    return run_in_thread


class SQLiteStore(Store):
    """A Store in a file, which several processes may use, or in memory without a folder. `temporary`
    is a folder in place of `folder` that the server deletes at its end; `shared` says that several
    processes of this server use the file.

    Raises SettingsError for a file that cannot be opened or is damaged. A damaged file is not
    replaced: a server without its keys would accept every caller.
    """

    unreachable = "The data folder cannot be used now; try again later."

    def __init__(
        self, folder: Path | None, temporary: Path | None = None, shared: bool = False
    ) -> None:
        super().__init__()
        self.permanent, self.shared = folder is not None, shared
        folder = folder or temporary
        self.lock = threading.Lock()
        self.full = False
        """Whether the disk is full, so that records can only be read."""
        path = ":memory:"
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / FILE_NAME
                file.touch(mode=0o600)
                path = str(file)
            self.database = connect(path)
            self._migrate(folder)
            self.database.execute("PRAGMA incremental_vacuum").fetchall()
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SettingsError(
                f"--data (ATTENTIVE_DATA): {FILE_NAME} in {str(folder)!r} cannot be opened: "
                f"{reason}{action(error)}.{whose(folder)}"
            ) from None

    @in_thread
    def version(self, table: str) -> str:
        return self._version(table)

    @in_thread
    def read(self, table: str, id: str) -> bytes | None:
        value: bytes | None = self._value(
            "SELECT value FROM records WHERE name = ? AND id = ?", table, id
        )
        return value

    @in_thread
    def read_all(self, table: str) -> dict[str, bytes]:
        return dict(
            self.database.execute(
                "SELECT id, value FROM records WHERE name = ?", (table,)
            ).fetchall()
        )

    @in_thread
    def write(self, changes: Changes, versions: Mapping[str, str] | None = None) -> bool:
        self.database.execute("BEGIN IMMEDIATE")
        if any(self._version(table) != version for table, version in (versions or {}).items()):
            return False
        for table, records in changes.items():
            deleted = [(table, id) for id, value in records.items() if value is None]
            written = [(table, id, value) for id, value in records.items() if value is not None]
            self.database.executemany("DELETE FROM records WHERE name = ? AND id = ?", deleted)
            self.database.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", written)
            self.database.execute(
                "INSERT INTO versions VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET version = "
                "version + 1",
                (table,),
            )
        return True

    @in_thread
    def increase(
        self, table: str, amounts: Mapping[str, int], limits: Mapping[str, int] | None = None
    ) -> str | None:
        self.database.execute("BEGIN IMMEDIATE")
        for id, limit in (limits or {}).items():
            stored = self._value("SELECT value FROM records WHERE name = ? AND id = ?", table, id)
            if int(stored or 0) + amounts[id] > limit:
                return id
        self.database.executemany(
            "INSERT INTO records VALUES (?, ?, ?) ON CONFLICT (name, id) "
            "DO UPDATE SET value = CAST(CAST(value AS INTEGER) + ? AS BLOB)",
            [(table, id, b"%d" % amount, amount) for id, amount in amounts.items()],
        )
        return None

    @in_thread
    def find(self, collection: str, id: str, seconds: float | None = None) -> bytes | None:
        query = "SELECT value FROM expiring WHERE name = ? AND id = ? AND expires > ?"
        value: bytes | None = self._value(query, collection, id, time.time())
        return value

    @in_thread
    def add(self, collection: str, records: Sequence[tuple[str, bytes]], bounds: Bounds) -> None:
        """Keeps at most half of the bytes of the bound, because some pages are half empty."""
        self.database.execute("BEGIN IMMEDIATE")
        now = time.time()
        # One statement for all: each execution hands the interpreter's lock to the other threads
        # and back.
        rows = [
            (collection, id, now + bounds.seconds, RECORD_BYTES + len(value), value)
            for id, value in records
        ]
        places = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
        insert = (
            f"INSERT OR REPLACE INTO expiring (name, id, expires, bytes, value) VALUES {places}"  # noqa: S608
        )
        self.database.execute(insert, list(chain.from_iterable(rows)))
        self.database.execute(
            "DELETE FROM expiring WHERE name = ? AND expires <= ?", (collection, now)
        )
        query = "SELECT COUNT(*), TOTAL(bytes) FROM expiring WHERE name = ?"
        count, total = self.database.execute(query, (collection,)).fetchone()
        oldest, removed = self.database.execute(
            OLDEST, (collection, max(0, count - bounds.size))
        ).fetchone()
        query = "SELECT number, bytes FROM expiring WHERE name = ? AND number > ? ORDER BY number"
        for number, size in self.database.execute(query, (collection, oldest or 0)):
            if total - removed <= bounds.bytes // 2:
                break
            oldest, removed = number, removed + size
        self.database.execute(
            "DELETE FROM expiring WHERE name = ? AND number <= ?", (collection, oldest)
        )

    @in_thread
    def remove(self, collection: str, id: str) -> bool:
        query = "DELETE FROM expiring WHERE name = ? AND id = ? AND expires > ?"
        return self.database.execute(query, (collection, id, time.time())).rowcount > 0

    def failure(self, error: Exception) -> StateUnreachable:
        """Logs the first of several failures, and returns the error for callers."""
        self.full |= exhausted(error) is DISK
        if self.up:
            self.up = False
            level = logging.ERROR if (end := action(error)) else logging.WARNING
            log.log(level, "%s cannot be used: %s%s", FILE_NAME, str(error)[:200], end)
        return StateUnreachable(self.unreachable)

    def _migrate(self, folder: Path | None) -> None:
        """Brings the file to SCHEMA_VERSION. Raises SettingsError for a file of a newer version."""
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            version: int = self._value("PRAGMA user_version")
            if version > SCHEMA_VERSION:
                raise SettingsError(
                    f"{FILE_NAME} in {str(folder)!r} was written by a newer version of this server."
                )
            if version == 0:
                if folder and any((folder / name).exists() for name in OLD_FILES):
                    raise SettingsError(
                        f"--data (ATTENTIVE_DATA): {str(folder)!r} has the data of version 0.1; "
                        f"`python -m server.store.old_data {shlex.quote(str(folder))}` converts it."
                    )
                create_tables(self.database)

    def _value(self, query: str, *values: object) -> Any:
        row = self.database.execute(query, values).fetchone()
        return row[0] if row else None

    def _version(self, table: str) -> str:
        return str(self._value("SELECT version FROM versions WHERE name = ?", table) or "")

    async def _close(self) -> None:
        with self.lock:
            self.database.close()


def connect(path: str) -> sqlite3.Connection:
    """Opens a database for one thread at a time, not always the same one."""
    database = sqlite3.connect(
        path, timeout=LOCK_SECONDS, check_same_thread=False, isolation_level=None
    )
    database.execute("PRAGMA auto_vacuum=INCREMENTAL")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    database.execute(f"PRAGMA journal_size_limit={LOG_PAGES * PAGE_BYTES}")
    return database


def action(error: Exception) -> str:
    """Returns the remedy for a damaged file or a full disk; else an empty text."""
    damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED
    return f": {RESTORE}" if damaged else remedy(error)


def whose(folder: Path | None) -> str:
    """Returns a sentence on who may write to the data; empty if this process may."""
    paths = [folder / FILE_NAME, folder] if folder else []
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
                if os.statvfs(path).f_flag & os.ST_RDONLY:
                    return f" {folder} is mounted read-only: mount it with write access."
                return (
                    f" {path} belongs to user {status.st_uid} and group {status.st_gid} with mode "
                    f"{stat.S_IMODE(status.st_mode):o}, and the server runs as user {os.geteuid()} "
                    f"and group {os.getegid()}: "
                    f"run it as that user, or chown -R {os.geteuid()} {folder}."
                )
    return ""


def create_tables(database: sqlite3.Connection) -> None:
    for statement in filter(str.strip, SCHEMA.split(";")):
        database.execute(statement)
    database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def holds_data(folder: Path) -> bool:
    """Returns whether a folder has a database, or keys or glossaries of version 0.1."""
    return any((folder / name).exists() for name in (FILE_NAME, *OLD_FILES[:2]))
