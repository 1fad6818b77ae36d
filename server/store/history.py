"""The history: translation id -> source and target tokens, for attention requests by id.

Translations wait in memory and are written to the store in the background, never while a request waits. A failing store
loses history records and never fails a translation. An id embeds its creation time: one that has expired (410) is thereby
told apart from one that was never issued (404).
"""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import islice

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
WAIT_SECONDS = 0.25
"""Time after which a recent id is looked up again."""


class History:
    """The latest translations, within the `bounds`.

    While the store fails, records wait in memory to be written later; the oldest are dropped first. `errors` counts
    failures and dropped records. Used in the event loop that serves.
    """

    def __init__(self, store: Store, bounds: Bounds) -> None:
        self.bounds = bounds
        self.hits = 0
        self.misses = 0
        self.errors = 0
        self._store = store
        self._unwritten: dict[str, TranslationRecord] = {}
        self._unwritten_bytes = 0
        self._failing = False
        self._writer: asyncio.Task[None] | None = None
        store.at_every_beat(self.flush)

    def add(self, record: TranslationRecord) -> None:
        """Adds a translation. Drops the oldest that are not written yet beyond the bounds."""
        self._unwritten[record.id] = record
        self._unwritten_bytes += record.size
        while len(self._unwritten) > 1 and (
            len(self._unwritten) > self.bounds.size or self._unwritten_bytes > self.bounds.bytes
        ):
            self._remove_unwritten(next(iter(self._unwritten)))
            self.errors += 1
        if self._store.shared and not self._failing:  # other servers look it up
            self._start_writer()

    async def find(self, id: str) -> TranslationRecord:
        """Returns the record of an id.

        Raises ExpiredTranslation for an id whose record was removed, UnknownTranslation for a text that is not an id,
        and Unavailable where the store cannot be read.
        """
        record = self._unwritten.get(id)
        created = creation_time(id)
        if record is None and created is not None:
            record = await self._read(id)
            if record is None and self._store.shared and time.time() - created < RECENT_SECONDS:
                await asyncio.sleep(WAIT_SECONDS)
                record = await self._read(id)
        if record is None:
            self.misses += 1
            raise self._not_found(created)
        self.hits += 1
        return record

    async def flush(self) -> None:
        """Writes the records that wait, where the store accepts them."""
        self._start_writer()
        if self._writer is not None:
            await asyncio.wait([self._writer])

    def _not_found(self, created: float | None) -> AttentiveError:
        if created is None or created > time.time() + CLOCK_SKEW_SECONDS:
            return UnknownTranslation("No translation has this id.")
        return ExpiredTranslation(
            f"This translation is no longer kept: the server remembers {self.bounds.size:,} translations "
            f"for {self.bounds.seconds:,.0f} seconds."
        )

    async def _read(self, id: str) -> TranslationRecord | None:
        try:
            data = await self._store.find(NAME, id)
        except StateUnreachable:
            self.errors += 1
            raise Unavailable("The history cannot be read now; try again later.") from None
        try:
            return None if data is None else deserialize(data)
        except ValueError:
            log.warning("a record of the history is damaged")
            return None

    def _start_writer(self) -> None:
        if self._writer is None and self._unwritten:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """Writes all records in order. They stay in `_unwritten` until the store has them; after a failure the rest waits
        for the next beat."""
        try:
            while batch := self._next_batch():
                await self._store.add(NAME, [(record.id, serialize(record)) for record in batch], self.bounds)
                for record in batch:
                    self._remove_unwritten(record.id)
                self._failing = False
        except StateUnreachable:
            self._failing = True
            self.errors += 1
        finally:
            self._writer = None

    def _next_batch(self) -> list[TranslationRecord]:
        batch: list[TranslationRecord] = []
        size = 0
        for record in islice(self._unwritten.values(), BATCH_RECORDS):
            size += record.size
            if batch and size > BATCH_BYTES:
                break
            batch.append(record)
        return batch

    def _remove_unwritten(self, id: str) -> None:
        if record := self._unwritten.pop(id, None):  # it may have been dropped meanwhile
            self._unwritten_bytes -= record.size


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
