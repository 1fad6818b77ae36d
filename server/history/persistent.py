"""The history that outlives its process: memory answers first, one thread writes to a store behind the requests' backs.

A store that is full, locked or out of reach costs the memory of what was served, never a translation.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import orjson

from server.errors import Unavailable
from server.history.memory import History, Pair, Record, ServedLeg

log = logging.getLogger(__name__)
BATCH = 500
"""Records that are written at once."""
RETRY_SECONDS = 1.0
"""How long a store that failed is left alone."""


class Store(Protocol):
    """Where records are kept, within bounds of its own. Used by one thread at a time; raises one of `failures`."""

    @property
    def failures(self) -> tuple[type[Exception], ...]: ...
    def write(self, records: Sequence[Record]) -> None: ...
    def read(self, id: str) -> Record | None: ...
    def close(self) -> None: ...


class StoredHistory(History):
    """A History whose records also go to `store`. What a failing store does not take waits in memory for it to come
    back, at most `bytes_limit` bytes of it; the oldest give way. `errors` counts failures and records given up."""

    def __init__(
        self, store: Store, size: int, bytes_limit: int, seconds: float, wall: Callable[[], float] = time.time
    ) -> None:
        super().__init__(size, bytes_limit, seconds, wall)
        self._store = store
        self._lock = threading.Lock()
        self._pending: deque[Record] = deque()
        self._pending_bytes = 0
        self._scheduled = False
        self._failing = False
        self._rest_until = 0.0
        self._retry: threading.Timer | None = None
        self._thread = ThreadPoolExecutor(1, "history")

    def record(self, record: Record) -> None:
        super().record(record)
        with self._lock:
            self._add(record)
            scheduled, self._scheduled = self._scheduled, True
        if not scheduled:
            self._thread.submit(self._write)

    async def close(self) -> None:
        """Writes what is pending, if it can be, and closes the store."""
        if self._retry is not None:
            self._retry.cancel()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._finish)
        self._thread.shutdown()
        await super().close()

    async def _find_elsewhere(self, id: str) -> Record | None:
        if self._clock() < self._rest_until:
            raise self._unavailable()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, id)

    def _add(self, record: Record) -> None:
        self._pending.append(record)
        self._pending_bytes += record.size
        while self._pending_bytes > self.bytes_limit and len(self._pending) > 1:
            self._pending_bytes -= self._pending.popleft().size
            self.errors += 1

    # What follows runs in the one thread.

    def _write(self) -> None:
        """Everything pending, in order. After a failure the rest waits for the next try."""
        while True:
            with self._lock:
                batch = [self._pending.popleft() for _ in range(min(BATCH, len(self._pending)))]
                self._pending_bytes -= sum(record.size for record in batch)
                if not batch:
                    self._scheduled = False
                    return
            try:
                self._store.write(batch)
            except self._store.failures as error:
                with self._lock:
                    newer, self._pending, self._pending_bytes = self._pending, deque(), 0
                    for record in (*batch, *newer):
                        self._add(record)
                self._failed(error)
                self._retry = threading.Timer(RETRY_SECONDS, self._again)
                self._retry.daemon = True
                self._retry.start()
                return
            self._succeeded()

    def _again(self) -> None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            self._thread.submit(self._write)

    def _read(self, id: str) -> Record | None:
        try:
            record = self._store.read(id)
        except self._store.failures as error:
            self._failed(error)
            raise self._unavailable() from error
        self._succeeded()
        return record

    def _finish(self) -> None:
        self._write()
        if self._retry is not None:
            self._retry.cancel()
        with contextlib.suppress(*self._store.failures):  # it failed before and has been told
            self._store.close()

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self._rest_until = self._clock() + RETRY_SECONDS
        if not self._failing:
            self._failing = True
            log.warning("the stored history cannot be used: %s", str(error)[:200])

    def _succeeded(self) -> None:
        if self._failing:
            self._failing = False
            self._rest_until = 0.0
            log.info("the stored history can be used again")

    def _unavailable(self) -> Unavailable:
        return Unavailable("The history cannot be read at the moment; try again.", round(RETRY_SECONDS))


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
