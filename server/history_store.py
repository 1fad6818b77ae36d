"""The history on disk: SQLite in the data folder, so that ids survive a restart.

Memory answers first; the disk is written behind the requests' backs by one thread. A disk that is full, locked or
broken costs the memory of what was served, never a translation.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import orjson

from server.history import History, Pair, Record, ServedLeg

log = logging.getLogger(__name__)
FILE = "history.sqlite3"
PENDING_LIMIT = 20_000
"""Records that may wait for a slow disk; further ones stay in memory only."""
LOCK_SECONDS = 2.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS translations (id TEXT PRIMARY KEY, created REAL NOT NULL, record BLOB NOT NULL) WITHOUT ROWID
"""


class StoredHistory(History):
    """A History that is also kept in `folder`, within the same bounds (`bytes_limit` is for memory only).

    Raises OSError or sqlite3.Error where the file cannot be opened at the start; later failures are logged and counted.
    """

    def __init__(
        self, folder: Path, size: int, bytes_limit: int, seconds: float, wall: Callable[[], float] = time.time
    ) -> None:
        super().__init__(size, bytes_limit, seconds, wall)
        self.errors = 0
        self._pending: SimpleQueue[Record] = SimpleQueue()
        self._scheduled = False
        self._thread = ThreadPoolExecutor(1, "history")
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        self._path.touch(mode=0o600)
        self._database = self._thread.submit(self._open).result()

    def record(self, record: Record) -> None:
        super().record(record)
        if self._pending.qsize() >= PENDING_LIMIT:
            self.errors += 1
            return
        self._pending.put(record)
        if not self._scheduled:
            self._scheduled = True
            self._thread.submit(self._write)

    async def close(self) -> None:
        """Writes what is pending and closes the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._finish)
        self._thread.shutdown()
        await super().close()

    async def _find_elsewhere(self, id: str) -> Record | None:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, id)

    # What follows runs in the one thread.

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=LOCK_SECONDS)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute(SCHEMA)
        database.execute("CREATE INDEX IF NOT EXISTS by_age ON translations (created)")
        database.commit()
        return database

    def _write(self) -> None:
        """Everything pending in one transaction; then what is too old or too much goes."""
        self._scheduled = False  # first: what comes from now on is for the next turn, unless this one still gets it
        batch = [self._pending.get() for _ in range(self._pending.qsize())]
        if not batch:
            return
        try:
            with self._database:
                self._database.executemany(
                    "INSERT OR REPLACE INTO translations VALUES (?, ?, ?)",
                    [(record.id, record.created, dumped(record)) for record in batch],
                )
                self._database.execute("DELETE FROM translations WHERE created < ?", (self._wall() - self.seconds,))
                [(count,)] = self._database.execute("SELECT COUNT(*) FROM translations")
                if count > self.size:
                    self._database.execute(
                        "DELETE FROM translations WHERE id IN (SELECT id FROM translations ORDER BY created LIMIT ?)",
                        (count - self.size,),
                    )
        except sqlite3.Error as error:
            self.errors += 1
            log.warning("history not written: %s", error)

    def _read(self, id: str) -> Record | None:
        try:
            row = self._database.execute(
                "SELECT record FROM translations WHERE id = ? AND created >= ?", (id, self._wall() - self.seconds)
            ).fetchone()
        except sqlite3.Error as error:
            self.errors += 1
            log.warning("history not read: %s", error)
            return None
        return loaded(row[0]) if row else None

    def _finish(self) -> None:
        self._write()
        self._database.close()


def dumped(record: Record) -> bytes:
    """A record as JSON."""
    return orjson.dumps(dataclasses.asdict(record))


def loaded(data: bytes) -> Record:
    """Inverse of `dumped`."""
    fields = orjson.loads(data)
    legs = tuple(
        ServedLeg(
            leg["model"],
            leg["source_language"],
            leg["target_language"],
            tuple(Pair(one["source_text"], tuple(one["source"]), tuple(one["target"])) for one in leg["sentences"]),
        )
        for leg in fields["legs"]
    )
    return Record(fields["id"], fields["created"], legs)
