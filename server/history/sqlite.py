"""The history in SQLite, in a file of the data folder."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from server.history.records import TranslationRecord, deserialize, serialize

FILE_NAME = "history.sqlite3"
LOCK_SECONDS = 2.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS translations (id TEXT PRIMARY KEY, created REAL NOT NULL, record BLOB NOT NULL) WITHOUT ROWID
"""


class SQLiteStore:
    """Stores at most `size` records, each for `seconds`, in a file of `folder`.

    Raises OSError or sqlite3.Error where the file cannot be opened.
    """

    failures: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, folder: Path, size: int, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE_NAME
        path.touch(mode=0o600)
        # Opened here, so that a failure stops the start. Used by one thread at a time, which is not this one.
        self._database = sqlite3.connect(path, timeout=LOCK_SECONDS, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(SCHEMA)
        self._database.execute("CREATE INDEX IF NOT EXISTS by_age ON translations (created)")
        self._database.commit()

    def write(self, records: Sequence[TranslationRecord]) -> None:
        """Inserts the records and deletes those beyond the bounds, in one transaction."""
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO translations VALUES (?, ?, ?)",
                [(record.id, record.created, serialize(record)) for record in records],
            )
            self._database.execute("DELETE FROM translations WHERE created < ?", (time.time() - self._seconds,))
            [(count,)] = self._database.execute("SELECT COUNT(*) FROM translations")
            if count > self._size:
                self._database.execute(
                    "DELETE FROM translations WHERE id IN (SELECT id FROM translations ORDER BY created LIMIT ?)",
                    (count - self._size,),
                )

    def read(self, id: str) -> TranslationRecord | None:
        """Returns the record of an id, or None."""
        row = self._database.execute(
            "SELECT record FROM translations WHERE id = ? AND created >= ?", (id, time.time() - self._seconds)
        ).fetchone()
        return deserialize(row[0]) if row else None

    def close(self) -> None:
        """Closes the database."""
        self._database.close()
