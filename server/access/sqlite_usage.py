"""Characters sent with each API key, over restarts, in a file of the data folder."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from server.access.usage import Usage

log = logging.getLogger(__name__)
FILE_NAME = "usage.sqlite3"
LOCK_SECONDS = 2.0
WRITE_SECONDS = 1.0
"""Time that counts stay in memory."""
SCHEMA = "CREATE TABLE IF NOT EXISTS usage (key TEXT PRIMARY KEY, characters INTEGER NOT NULL) WITHOUT ROWID"
ADD = "INSERT INTO usage VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET characters = characters + excluded.characters"


class SQLiteUsage(Usage):
    """Counts in memory, and adds the counts to those in the file once a second. While the file cannot be used, the counts
    wait, and `read` returns those since the start. Used in the event loop that serves."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._failing = False
        self._writer: asyncio.Task[None] | None = None

    def add(self, key: str, characters: int) -> None:
        """Counts characters and schedules their write."""
        super().add(key, characters)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_later())

    async def read(self, key: str) -> int:
        """Returns the characters of a key, since the first start with this data folder."""
        await self._write()
        return await asyncio.to_thread(self._stored, key) + self._characters[key]

    async def close(self) -> None:
        """Writes the counts."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        await self._write()

    async def _write_later(self) -> None:
        try:
            await asyncio.sleep(WRITE_SECONDS)
            await self._write()
        finally:
            self._writer = None

    async def _write(self) -> None:
        if not self._characters:
            return
        counts, self._characters = self._characters, Counter()
        if not await asyncio.shield(asyncio.to_thread(self._store, counts)):
            self._characters.update(counts)

    # The methods below run in threads.

    def _store(self, counts: Counter[str]) -> bool:
        """Adds counts to those in the file and returns whether this succeeded."""
        try:
            with self._opened() as database:
                database.executemany(ADD, list(counts.items()))
        except (sqlite3.Error, OSError) as error:
            if not self._failing:
                log.warning("the usage cannot be stored: %s", error)
            self._failing = True
            return False
        self._failing = False
        return True

    def _stored(self, key: str) -> int:
        try:
            with self._opened() as database:
                row = database.execute("SELECT characters FROM usage WHERE key = ?", (key,)).fetchone()
        except (sqlite3.Error, OSError):
            return 0
        return int(row[0]) if row else 0

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """`with`: a transaction."""
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            with contextlib.closing(sqlite3.connect(self._path, timeout=LOCK_SECONDS)) as database, database:
                database.execute(SCHEMA)
                yield database
