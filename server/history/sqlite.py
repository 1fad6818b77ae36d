"""The history on disk: SQLite in the data folder, so that ids survive a restart."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from server.history.memory import Record
from server.history.persistent import dumped, loaded

FILE = "history.sqlite3"
LOCK_SECONDS = 2.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS translations (id TEXT PRIMARY KEY, created REAL NOT NULL, record BLOB NOT NULL) WITHOUT ROWID
"""


class SQLiteStore:
    """At most `size` records of at most `seconds` in a file of `folder`.

    Raises OSError or sqlite3.Error where the file cannot be opened.
    """

    failures: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, folder: Path, size: int, seconds: float, wall: Callable[[], float] = time.time) -> None:
        self._size = size
        self._seconds = seconds
        self._wall = wall
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        path.touch(mode=0o600)
        # Opened here, so that a start fails where it cannot be; used by one thread only, though by another one.
        self._database = sqlite3.connect(path, timeout=LOCK_SECONDS, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(SCHEMA)
        self._database.execute("CREATE INDEX IF NOT EXISTS by_age ON translations (created)")
        self._database.commit()

    def write(self, records: Sequence[Record]) -> None:
        """All of them in one transaction; then what is too old or too much goes."""
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO translations VALUES (?, ?, ?)",
                [(record.id, record.created, dumped(record)) for record in records],
            )
            self._database.execute("DELETE FROM translations WHERE created < ?", (self._wall() - self._seconds,))
            [(count,)] = self._database.execute("SELECT COUNT(*) FROM translations")
            if count > self._size:
                self._database.execute(
                    "DELETE FROM translations WHERE id IN (SELECT id FROM translations ORDER BY created LIMIT ?)",
                    (count - self._size,),
                )

    def read(self, id: str) -> Record | None:
        row = self._database.execute(
            "SELECT record FROM translations WHERE id = ? AND created >= ?", (id, self._wall() - self._seconds)
        ).fetchone()
        return loaded(row[0]) if row else None

    def close(self) -> None:
        self._database.close()
