"""The history in SQLite, in a file of the data folder, with a bound on the bytes of all its files.

The limit is divided: 3/8 for the database, 1/8 for one transaction, 1/8 for the write-ahead log between transactions,
and the rest as a margin for index pages and the shared-memory file. A record over 1/8 of the limit is not stored.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from server.history.records import TranslationRecord, deserialize, serialize

log = logging.getLogger(__name__)
FILE_NAME = "history.sqlite3"
DAMAGED_NAME = "history.damaged.sqlite3"
"""A damaged database is renamed to this and replaces an earlier one."""
MIN_BYTES = 262_144
"""Smallest limit. The files of an empty database have about 60,000 bytes."""
LOCK_SECONDS = 2.0
PAGE_BYTES = 4096
LOG_BYTES = 4_000_000
"""The write-ahead log is emptied at this size if the limit permits more."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS translations (id TEXT PRIMARY KEY, created REAL NOT NULL, record BLOB NOT NULL) WITHOUT ROWID
"""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
FAILURES = (sqlite3.Error, OSError)
"""Exceptions that the methods of a SQLiteStore raise."""
Row = tuple[str, float, bytes]


class SQLiteStore:
    """Stores at most `size` records, each for `seconds`, in files of `folder` with at most `bytes_limit` bytes.

    A damaged database is set aside, and a new one is made when the store is used again; so is a database whose file was
    deleted. Raises OSError where the file cannot be created.
    """

    def __init__(self, folder: Path, size: int, bytes_limit: int, seconds: float) -> None:
        self._path = folder / FILE_NAME
        self._size = size
        self._seconds = seconds
        self._max_pages = bytes_limit * 3 // 8 // PAGE_BYTES
        self._group_pages = bytes_limit // 8 // PAGE_BYTES
        self._log_limit = min(bytes_limit // 8, LOG_BYTES)
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._create_file()

    def open(self) -> None:
        """Opens the database. Raises one of FAILURES."""
        with self._opened():
            pass

    def write(self, records: Sequence[TranslationRecord]) -> None:
        """Inserts the records and deletes those beyond the bounds."""
        rows = [(record.id, record.created, serialize(record)) for record in records]
        with self._opened() as database:
            for group in self._groups(rows):
                self._empty_log(database)
                with database:
                    self._make_room(database, group)
                    database.executemany("INSERT OR REPLACE INTO translations VALUES (?, ?, ?)", group)
                self._vacuum(database)

    def read(self, id: str) -> TranslationRecord | None:
        """Returns the record of an id, or None."""
        with self._opened() as database:
            row = database.execute(
                "SELECT record FROM translations WHERE id = ? AND created >= ?", (id, time.time() - self._seconds)
            ).fetchone()
        try:
            return deserialize(row[0]) if row else None
        except (ValueError, KeyError, TypeError):
            log.warning("a record of the history is damaged")
            return None

    def close(self) -> None:
        """Closes the database."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

    # -- the files -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """`with`: the database is open. A damaged database is set aside, and the error is raised."""
        try:
            if self._database is None:
                self._database = self._connect()
            elif self._deleted():
                self.close()
                raise sqlite3.OperationalError("the file of the database was deleted")
            yield self._database
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
                self._set_aside(error)
            raise

    def _connect(self) -> sqlite3.Connection:
        self._create_file()
        self._inode = self._path.stat().st_ino
        # One thread at a time uses the connection, and not always the same.
        database = sqlite3.connect(self._path, timeout=LOCK_SECONDS, check_same_thread=False)
        try:
            database.execute(f"PRAGMA page_size={PAGE_BYTES}")
            database.execute("PRAGMA auto_vacuum=INCREMENTAL")
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA wal_autocheckpoint=0")  # _empty_log also truncates the file
            database.execute("PRAGMA synchronous=NORMAL")
            database.execute(SCHEMA)
            database.execute("CREATE INDEX IF NOT EXISTS by_age ON translations (created)")
            with database:
                self._make_room(database, [])
            if pragma(database, "auto_vacuum") != 2 or pragma(database, "page_count") > self._max_pages:
                database.execute("VACUUM")  # made by an earlier version, or under a larger limit
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _create_file(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch(mode=0o600)

    def _deleted(self) -> bool:
        """Returns whether a file of the open database was deleted or replaced."""
        try:
            return self._path.stat().st_ino != self._inode or not self._log_path.exists()
        except OSError:
            return True

    @property
    def _log_path(self) -> Path:
        return self._path.with_name(FILE_NAME + "-wal")

    def _set_aside(self, error: sqlite3.Error) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.close()
        damaged = self._path.with_name(DAMAGED_NAME)
        with contextlib.suppress(FileNotFoundError):
            self._path.replace(damaged)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(FILE_NAME + suffix).unlink(missing_ok=True)
        log.error("the history is damaged (%s); it is set aside as %s and a new one begins", error, DAMAGED_NAME)

    # -- the bounds ----------------------------------------------------------------------------------------------------

    def _groups(self, rows: Sequence[Row]) -> Iterator[list[Row]]:
        """Yields the rows in groups, each of which fits into one transaction. Larger rows are left out."""
        group: list[Row] = []
        pages = 0
        for row in rows:
            needed = pages_of(row)
            if needed > self._group_pages:
                continue
            if pages + needed > self._group_pages:
                yield group
                group, pages = [], 0
            group.append(row)
            pages += needed
        if group:
            yield group

    def _make_room(self, database: sqlite3.Connection, rows: Sequence[Row]) -> None:
        """Deletes expired records, and the oldest ones until `rows` fit into the bounds."""
        database.execute("DELETE FROM translations WHERE created < ?", (time.time() - self._seconds,))
        count: int = database.execute("SELECT COUNT(*) FROM translations").fetchone()[0]
        excess = max(0, count + len(rows) - self._size)
        while count:
            if not excess:
                used = pragma(database, "page_count") - pragma(database, "freelist_count")
                if used + sum(map(pages_of, rows)) <= self._max_pages:
                    return
                excess = 1 + count // 16
            count -= database.execute(
                "DELETE FROM translations WHERE id IN (SELECT id FROM translations ORDER BY created LIMIT ?)", (excess,)
            ).rowcount
            excess = 0

    def _vacuum(self, database: sqlite3.Connection) -> None:
        """Shortens the file where much of it is unused; some unused pages stay for the next records."""
        unused = pragma(database, "freelist_count")
        if unused > self._max_pages // 4:
            pages = min(unused, self._group_pages // 2)
            database.executescript(f"PRAGMA incremental_vacuum({pages})")  # execute() would free one page only

    def _empty_log(self, database: sqlite3.Connection) -> None:
        """Moves the write-ahead log into the database and truncates it if it is large. Raises OperationalError where
        another program prevents this."""
        if self._log_path.stat().st_size < self._log_limit:
            return
        if database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise sqlite3.OperationalError("another program reads the database")


def pages_of(row: Row) -> int:
    """Returns an upper estimate of the pages that a row occupies."""
    return 2 + len(row[2]) // (PAGE_BYTES - 100)


def pragma(database: sqlite3.Connection, name: str) -> int:
    """Returns the value of a numeric pragma."""
    value: int = database.execute(f"PRAGMA {name}").fetchone()[0]
    return value
