"""The history: translation id -> source and target tokens, for attention requests by id.

The latest translations are in memory, and are written to a permanent store in the background, never while a request
waits. A failing store loses history records and never fails a translation. An id embeds its creation time: one that has
expired (410) is thereby told apart from one that was never issued (404).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from server.config import Settings
from server.errors import (
    AttentiveError,
    ExpiredTranslation,
    SettingsError,
    StateUnreachable,
    Unavailable,
    UnknownTranslation,
)
from server.store.history_records import TranslationRecord, creation_time, deserialize, serialize
from server.store.interface import Bounds, Store

log = logging.getLogger(__name__)
NAME = "history"
CLOCK_SKEW_SECONDS = 60
"""An id from further in the future than this was not issued by any of the servers."""
MIN_BYTES = 262_144
"""Smallest bound of a history in a file."""
BATCH_RECORDS, BATCH_BYTES = 200, 1_000_000
"""Most records of a write, and their approximate bytes; one larger record is written alone."""
RECENT_SECONDS = 2.0
"""A translation of this age may still be on its way from another server to the store."""
WAITS = (0.02, 0.05, 0.1, 0.2)
"""Seconds between the look-ups of a recent id."""


class History:
    """The latest translations, within the `bounds`; their bytes in memory are approximate.

    While a permanent store fails, records wait in memory to be written later; the oldest are dropped first. `errors`
    counts failures and dropped records. Ages are measured on the monotonic `clock`, so that adjustments of the wall clock
    have no effect. Used in the event loop that serves.
    """

    def __init__(self, store: Store, bounds: Bounds, clock: Callable[[], float] = time.monotonic) -> None:
        self.bounds = bounds
        self.hits = 0
        self.misses = 0
        self.errors = 0
        self._store = store
        self._clock = clock
        self._records: OrderedDict[str, tuple[float, TranslationRecord]] = OrderedDict()
        self._bytes = 0
        self._pending: deque[TranslationRecord] = deque()
        self._pending_bytes = 0
        self._failing = False
        self._writer: asyncio.Task[None] | None = None
        if store.permanent:
            store.at_every_beat(self.flush)

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: TranslationRecord) -> None:
        """Adds a translation and removes the oldest ones beyond the bounds."""
        self._records[record.id] = (self._clock(), record)
        self._bytes += record.size
        self._prune()
        if self._store.permanent:
            self._pending.append(record)
            self._pending_bytes += record.size
            self._drop_pending()
            if self._store.shared and not self._failing:  # other servers look it up
                self._start_writer()

    async def find(self, id: str) -> TranslationRecord:
        """Returns the record of an id.

        Raises ExpiredTranslation for an id whose record was removed, UnknownTranslation for a text that is not an id,
        and Unavailable where the store cannot be read.
        """
        self._prune()
        entry = self._records.get(id)
        record = entry[1] if entry else await self._find_stored(id) if creation_time(id) is not None else None
        if record is not None:
            self.hits += 1
            return record
        self.misses += 1
        raise self._not_found(id)

    async def flush(self) -> None:
        """Writes pending records, where the store accepts them."""
        self._start_writer()
        if self._writer is not None:
            await asyncio.wait([self._writer])

    async def close(self) -> None:
        """Writes pending records and removes all records from memory."""
        await self.flush()
        self._records.clear()
        self._bytes = 0

    def _prune(self) -> None:
        oldest = self._clock() - self.bounds.seconds
        while self._records:
            added, record = next(iter(self._records.values()))
            if added >= oldest and len(self._records) <= self.bounds.size and self._bytes <= self.bounds.bytes:
                return
            self._bytes -= record.size
            del self._records[record.id]

    def _not_found(self, id: str) -> AttentiveError:
        created = creation_time(id)
        if created is None or created > time.time() + CLOCK_SKEW_SECONDS:
            return UnknownTranslation("No translation has this id.")
        return ExpiredTranslation(
            f"This translation is no longer kept: the server remembers {self.bounds.size:,} translations "
            f"for {self.bounds.seconds:,.0f} seconds."
        )

    # -- the store -----------------------------------------------------------------------------------------------------

    async def _find_stored(self, id: str) -> TranslationRecord | None:
        if not self._store.permanent:
            return None
        for seconds in WAITS if self._store.shared else ():
            if (record := await self._read(id)) or time.time() - (creation_time(id) or 0) > RECENT_SECONDS:
                return record
            await asyncio.sleep(seconds)
        return await self._read(id)

    async def _read(self, id: str) -> TranslationRecord | None:
        try:
            data = await self._store.find(NAME, id)
        except StateUnreachable:
            self.errors += 1
            raise Unavailable("The history cannot be read now; try again later.") from None
        try:
            return None if data is None else deserialize(data)
        except (ValueError, KeyError, TypeError):
            log.warning("a record of the history is damaged")
            return None

    def _start_writer(self) -> None:
        if self._writer is None and self._pending:
            self._writer = asyncio.get_running_loop().create_task(self._write_pending())

    async def _write_pending(self) -> None:
        """Writes all pending records in order. After a failure the rest waits for the next beat."""
        try:
            while self._pending:
                batch = self._next_batch()
                try:
                    await self._store.add(NAME, [(record.id, serialize(record)) for record in batch], self.bounds)
                except StateUnreachable:
                    self.errors += 1
                    self._failing = True
                    self._pending.extendleft(reversed(batch))
                    self._pending_bytes += sum([record.size for record in batch])
                    self._drop_pending()
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

    def _take(self) -> TranslationRecord:
        record = self._pending.popleft()
        self._pending_bytes -= record.size
        return record

    def _drop_pending(self) -> None:
        while self._pending_bytes > self.bounds.bytes and len(self._pending) > 1:
            self._take()
            self.errors += 1


def open_history(settings: Settings, store: Store) -> History | None:
    """Returns the history, or None where it is switched off. Raises SettingsError for a bound that is too small."""
    if not settings.history:
        return None
    if store.permanent and not store.shared and settings.history_bytes < MIN_BYTES:
        raise SettingsError(
            f"--history-bytes (ATTENTIVE_HISTORY_BYTES) must be at least {MIN_BYTES:,} with --data, because even an "
            "empty database occupies some bytes."
        )
    return History(store, Bounds(settings.history_size, settings.history_bytes, settings.history_seconds))
