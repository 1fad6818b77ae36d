"""The history: translation id -> source and target tokens, for attention requests by id.

Translations wait in memory and are written to the store twice a second, never while a request waits. A failing store
loses history records and never fails a translation. An id embeds its creation time: one that has expired (410) is thereby
told apart from one that was never issued (404).
"""

from __future__ import annotations

import asyncio
import logging
import time

from pydantic import TypeAdapter

from server.errors import AttentiveError, ExpiredTranslation, NotFound, StateUnreachable
from server.store.history_records import TranslationRecord, creation_time
from server.store.interface import Bounds, Store

log = logging.getLogger(__name__)
NAME = "history"
CLOCK_SKEW_SECONDS = 60
"""An id from further in the future than this was not issued by any of the servers."""
BATCH_RECORDS = 500
"""Most records of a write."""
RECENT_SECONDS = 1.0
"""A translation of this age may still be on its way from another server to the store."""
_RECORD = TypeAdapter(TranslationRecord)


class History:
    """The latest translations, within the `bounds`.

    While the store fails, records wait in memory to be written later; the oldest are dropped first. `errors` counts
    failures, `lost` the dropped records. Used in the event loop that serves.
    """

    def __init__(self, store: Store, bounds: Bounds) -> None:
        self.bounds = bounds
        self.hits = 0
        self.misses = 0
        self.errors = 0
        self.lost = 0
        self._store = store
        self._unwritten: dict[str, bytes] = {}
        self._unwritten_bytes = 0
        store.at_every_beat(self.flush)

    def add(self, id: str, data: bytes) -> None:
        """Adds an encoded translation. Drops the oldest that are not written yet beyond the bounds."""
        self._unwritten[id] = data
        self._unwritten_bytes += len(data)
        while len(self._unwritten) > 1 and (
            len(self._unwritten) > self.bounds.size or self._unwritten_bytes > self.bounds.bytes
        ):
            self._remove_unwritten(next(iter(self._unwritten)))
            self.lost += 1

    async def find(self, id: str) -> TranslationRecord:
        """Returns the record of an id.

        Raises ExpiredTranslation for an id whose record was removed, NotFound for a text that is not an id,
        and StateUnreachable where the store cannot be read.
        """
        created = creation_time(id)
        data = self._unwritten.get(id)
        if data is None and created is not None:
            data = await self._read(id)
            wait = min(RECENT_SECONDS, created + RECENT_SECONDS - time.time())
            if data is None and self._store.shared and wait > 0:
                await asyncio.sleep(wait)
                data = await self._read(id)
        record = None
        try:
            record = None if data is None else _RECORD.validate_json(data)
        except ValueError:
            log.warning("a record of the history is damaged")
        if record is None:
            self.misses += 1
            raise self._not_found(created)
        self.hits += 1
        return record

    async def flush(self) -> None:
        """Writes the records that wait, the oldest first, and keeps them where the store fails. Those that come meanwhile wait
        for the next beat: each write costs a pass over all records."""
        waiting = list(self._unwritten.items())
        for start in range(0, len(waiting), BATCH_RECORDS):
            batch = waiting[start : start + BATCH_RECORDS]
            try:
                await self._store.add(NAME, batch, self.bounds)
            except StateUnreachable:
                self.errors += 1
                return
            for id, _ in batch:
                self._remove_unwritten(id)

    def _not_found(self, created: float | None) -> AttentiveError:
        if created is None or created > time.time() + CLOCK_SKEW_SECONDS:
            return NotFound("No translation has this id.")
        return ExpiredTranslation(
            f"This translation is no longer kept: the server remembers {self.bounds.size:,} translations "
            f"for {self.bounds.seconds:,.0f} seconds."
        )

    async def _read(self, id: str) -> bytes | None:
        try:
            return await self._store.find(NAME, id)
        except StateUnreachable:
            self.errors += 1
            raise

    def _remove_unwritten(self, id: str) -> None:
        self._unwritten_bytes -= len(self._unwritten.pop(id, b""))  # it may have been dropped meanwhile
