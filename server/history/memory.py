"""The history in memory: translation id -> source and target tokens, for attention requests by id.

An id embeds its creation time. An id that has expired (410) is thereby told apart from one that was never issued (404).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from server.errors import AttentiveError, ExpiredTranslation, UnknownTranslation
from server.history.records import TranslationRecord, creation_time

CLOCK_SKEW_SECONDS = 60
"""An id from further in the future than this was not issued by any of the servers."""


class History:
    """The latest translations in memory.

    `size` bounds the number of records, `bytes_limit` their approximate bytes, `seconds` their age. `errors` counts
    failures of external storage and is 0 here. Ages are measured on the monotonic `clock`, so that adjustments of the wall
    clock have no effect.
    """

    def __init__(
        self,
        size: int,
        bytes_limit: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size = size
        self.bytes_limit = bytes_limit
        self.seconds = seconds
        self.hits = 0
        self.misses = 0
        self.errors = 0
        self._clock = clock
        self._records: OrderedDict[str, tuple[float, TranslationRecord]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: TranslationRecord) -> None:
        """Adds a translation and removes the oldest ones beyond the bounds."""
        self._records[record.id] = (self._clock(), record)
        self._bytes += record.size
        self._prune()

    async def find(self, id: str) -> TranslationRecord:
        """Returns the record of an id.

        Raises ExpiredTranslation for an id whose record was removed, UnknownTranslation for a text that is not an id,
        and Unavailable where external storage cannot be read.
        """
        self._prune()
        entry = self._records.get(id)
        record = entry[1] if entry else await self._find_stored(id) if creation_time(id) is not None else None
        if record is not None:
            self.hits += 1
            return record
        self.misses += 1
        raise self._not_found(id)

    async def close(self) -> None:
        """Removes all records."""
        self._records.clear()
        self._bytes = 0

    async def _find_stored(self, id: str) -> TranslationRecord | None:
        """Looks an id up in external storage, which this class does not have."""
        return None

    def _not_found(self, id: str) -> AttentiveError:
        created = creation_time(id)
        if created is None or created > time.time() + CLOCK_SKEW_SECONDS:
            return UnknownTranslation("No translation has this id.")
        return ExpiredTranslation(
            f"This translation is no longer kept: the server remembers {self.size:,} translations "
            f"for {self.seconds:,.0f} seconds."
        )

    def _prune(self) -> None:
        oldest = self._clock() - self.seconds
        while self._records:
            added, record = next(iter(self._records.values()))
            if added >= oldest and len(self._records) <= self.size and self._bytes <= self.bytes_limit:
                return
            self._bytes -= record.size
            del self._records[record.id]
