"""The history in Redis, shared by several servers: each of them finds the translations of all."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any

from redis.asyncio import Redis

from server.errors import StateUnreachable
from server.history.memory import History
from server.history.records import TranslationRecord, creation_time, deserialize, serialize
from server.state.bounded_entries import ALL, WRITE_ENTRIES
from server.state.redis import RedisState

log = logging.getLogger(__name__)
PREFIX = "attentive:history:1:"
"""Prefix of every key. The number is the version of the record format."""
INDEX = PREFIX + "index"
"""A sorted set of "id bytes", one entry per record, scored by the time of writing in milliseconds."""
BYTES = PREFIX + "bytes"
"""The total bytes of the records in the index."""
BATCH_RECORDS, BATCH_BYTES = 50, 1_000_000
"""Most records of a write, and their approximate bytes; one larger record is written alone."""
WRITE_SECONDS = 2.0
"""Time limit of a write. No request waits for it."""
RECENT_SECONDS = 2.0
"""A translation of this age may still be on its way to Redis."""
WAITS = (0.02, 0.05, 0.1, 0.2)
"""Seconds between the look-ups of a recent id."""


class RedisHistory(History):
    """A History that also writes its records to Redis, for all servers together within the same bounds.

    While Redis cannot be reached, records wait in memory to be written later. They occupy at most `bytes_limit` bytes;
    the oldest are dropped first. `errors` counts failures and dropped records. Used in the event loop that serves.
    """

    def __init__(self, state: RedisState, size: int, bytes_limit: int, seconds: float) -> None:
        super().__init__(size, bytes_limit, seconds)
        self._state = state
        self._pending: deque[TranslationRecord] = deque()
        self._pending_bytes = 0
        self._failing = False
        self._writer: asyncio.Task[None] | None = None
        state.at_every_beat(self._retry)

    def add(self, record: TranslationRecord) -> None:
        """Adds a translation and schedules its write to Redis."""
        super().add(record)
        self._enqueue(record)
        if not self._failing:
            self._start_writer()

    async def close(self) -> None:
        """Writes pending records if Redis accepts them."""
        self._start_writer()
        if self._writer is not None:
            await asyncio.wait([self._writer])
        await super().close()

    async def _find_stored(self, id: str) -> TranslationRecord | None:
        for seconds in WAITS:
            if (record := await self._read(id)) or time.time() - (creation_time(id) or 0) > RECENT_SECONDS:
                return record
            await asyncio.sleep(seconds)
        return await self._read(id)

    async def _read(self, id: str) -> TranslationRecord | None:
        try:
            data = await self._state.execute("GET", PREFIX + id)
        except StateUnreachable:
            self.errors += 1
            raise StateUnreachable("The history cannot be read now; try again later.") from None
        try:
            return None if data is None else deserialize(data)
        except (ValueError, KeyError, TypeError):
            log.warning("a record of the history is damaged")
            return None

    def _enqueue(self, record: TranslationRecord) -> None:
        self._pending.append(record)
        self._pending_bytes += record.size
        while self._pending_bytes > self.bytes_limit and len(self._pending) > 1:
            self._take()
            self.errors += 1

    def _take(self) -> TranslationRecord:
        record = self._pending.popleft()
        self._pending_bytes -= record.size
        return record

    async def _retry(self) -> None:
        """Writes the records that wait since a failure."""
        self._start_writer()

    def _start_writer(self) -> None:
        if self._writer is None and self._pending:
            self._writer = asyncio.get_running_loop().create_task(self._write_pending())

    async def _write_pending(self) -> None:
        """Writes all pending records in order. After a failure the rest waits for the next beat."""
        try:
            while self._pending:
                batch = self._next_batch()
                try:
                    await write(self._state, batch, self.size, self.bytes_limit, self.seconds)
                except StateUnreachable:
                    self.errors += 1
                    self._failing = True
                    self._requeue(batch)
                    return
                self._failing = False
        finally:
            self._writer = None

    def _next_batch(self) -> list[TranslationRecord]:
        batch = [self._take()]
        size = batch[0].size
        while self._pending and len(batch) < BATCH_RECORDS and size + self._pending[0].size <= BATCH_BYTES:
            size += self._pending[0].size
            batch.append(self._take())
        return batch

    def _requeue(self, batch: list[TranslationRecord]) -> None:
        """Puts a batch back in front of the newer records."""
        newer, self._pending, self._pending_bytes = self._pending, deque(), 0
        for record in (*batch, *newer):
            self._enqueue(record)


async def write(
    state: RedisState, records: Sequence[TranslationRecord], size: int, bytes_limit: int, seconds: float
) -> None:
    """Writes records, and deletes those beyond the bounds. Raises StateUnreachable."""
    arguments: list[Any] = [size, bytes_limit, round(1000 * seconds), PREFIX, ALL]
    for record in records:
        arguments += [record.id, serialize(record)]

    def operation(client: Redis) -> Awaitable[object]:
        answer: Awaitable[object] = client.register_script(WRITE_ENTRIES)(keys=[INDEX, BYTES], args=arguments)
        return answer

    await state.run(operation, WRITE_SECONDS)
