"""A history that survives a restart: records are kept in memory and written to SQLite by one background thread.

A failing store (full, locked, damaged or unreachable) loses history records and never fails a translation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from server.errors import Unavailable
from server.history.memory import History
from server.history.records import TranslationRecord
from server.history.sqlite import FAILURES, SQLiteStore

log = logging.getLogger(__name__)
BATCH = 500
"""Records per write."""
RETRY_SECONDS = 1.0
"""Pause after a failure, in which the store is not used."""


class PersistentHistory(History):
    """A History that also writes its records to `store`.

    While the store fails, records wait in memory to be written later. They occupy at most `bytes_limit` bytes; the
    oldest are dropped first. `errors` counts failures and dropped records.
    """

    def __init__(self, store: SQLiteStore, size: int, bytes_limit: int, seconds: float) -> None:
        super().__init__(size, bytes_limit, seconds)
        self._store = store
        self._lock = threading.Lock()
        self._pending: deque[TranslationRecord] = deque()
        self._pending_bytes = 0
        self._write_scheduled = False
        self._failing = False
        self._paused_until = 0.0
        self._retry: threading.Timer | None = None
        self._thread = ThreadPoolExecutor(1, "history")
        self._thread.submit(self._open)

    def add(self, record: TranslationRecord) -> None:
        """Adds a translation and schedules its write to the store."""
        super().add(record)
        with self._lock:
            self._enqueue(record)
            scheduled, self._write_scheduled = self._write_scheduled, True
        if not scheduled:
            self._thread.submit(self._write_pending)

    async def close(self) -> None:
        """Writes pending records if the store accepts them, and closes the store."""
        if self._retry is not None:
            self._retry.cancel()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._finish)
        self._thread.shutdown()
        await super().close()

    async def _find_stored(self, id: str) -> TranslationRecord | None:
        if self._clock() < self._paused_until:
            raise self._unavailable()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, id)

    def _enqueue(self, record: TranslationRecord) -> None:
        self._pending.append(record)
        self._pending_bytes += record.size
        while self._pending_bytes > self.bytes_limit and len(self._pending) > 1:
            self._pending_bytes -= self._pending.popleft().size
            self.errors += 1

    # The methods below run in the background thread.

    def _open(self) -> None:
        try:
            self._store.open()
        except FAILURES as error:
            self._count_failure(error)

    def _write_pending(self) -> None:
        """Writes all pending records in order. After a failure the rest waits for the next attempt."""
        while True:
            with self._lock:
                batch = [self._pending.popleft() for _ in range(min(BATCH, len(self._pending)))]
                self._pending_bytes -= sum(record.size for record in batch)
                if not batch:
                    self._write_scheduled = False
                    return
            try:
                self._store.write(batch)
            except FAILURES as error:
                self._requeue(batch)
                self._count_failure(error)
                self._retry = threading.Timer(RETRY_SECONDS, self._retry_write)
                self._retry.daemon = True
                self._retry.start()
                return
            self._reset_failure()

    def _requeue(self, batch: list[TranslationRecord]) -> None:
        """Puts a batch back in front of the newer records."""
        with self._lock:
            newer, self._pending, self._pending_bytes = self._pending, deque(), 0
            for record in (*batch, *newer):
                self._enqueue(record)

    def _retry_write(self) -> None:
        with contextlib.suppress(RuntimeError):  # the executor was shut down in the meantime
            self._thread.submit(self._write_pending)

    def _read(self, id: str) -> TranslationRecord | None:
        try:
            record = self._store.read(id)
        except FAILURES as error:
            self._count_failure(error)
            raise self._unavailable() from error
        self._reset_failure()
        return record

    def _finish(self) -> None:
        self._write_pending()
        if self._retry is not None:
            self._retry.cancel()
        with contextlib.suppress(*FAILURES):  # an earlier failure was logged already
            self._store.close()

    def _count_failure(self, error: Exception) -> None:
        self.errors += 1
        self._paused_until = self._clock() + RETRY_SECONDS
        if not self._failing:
            self._failing = True
            log.warning("the stored history cannot be used: %s", str(error)[:200])

    def _reset_failure(self) -> None:
        if self._failing:
            self._failing = False
            self._paused_until = 0.0
            log.info("the stored history can be used again")

    def _unavailable(self) -> Unavailable:
        return Unavailable("The history cannot be read at the moment; try again.", round(RETRY_SECONDS))
