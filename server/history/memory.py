"""What was served lately: translation id -> source and target tokens, so that one can look inside afterwards.

An id carries the moment of its birth, so that an id that was once good (410) can be told from one that never was (404).
Bounded by number, size and age. Nothing is kept where the history is switched off.
"""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from server.errors import AttentiveError, ExpiredTranslation, UnknownTranslation

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32, as in ULID
ID_PATTERN = re.compile(f"[0-7][{ALPHABET}]{{25}}")


@dataclass(frozen=True, slots=True)
class Pair:
    """One sentence as the model read and wrote it. A sentence that was copied instead of translated has no tokens."""

    source_text: str
    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def copied(self) -> bool:
        return not self.source


@dataclass(frozen=True, slots=True)
class ServedLeg:
    """The sentences that one model translated; a translation through a pivot language has two legs."""

    model: str
    source_language: str
    target_language: str
    sentences: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One translation. `created` is in seconds since the epoch."""

    id: str
    created: float
    legs: tuple[ServedLeg, ...]

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""
        total = 500
        for leg in self.legs:
            for pair in leg.sentences:
                total += 200 + 2 * len(pair.source_text) + 16 * (len(pair.source) + len(pair.target))
        return total


def new_id(now: float | None = None) -> str:
    """A ULID: 48 bits of milliseconds since the epoch and 80 random bits in 26 characters, sortable by time."""
    milliseconds = int(1000 * (time.time() if now is None else now)) & (2**48 - 1)
    number = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -5, -5))


def birth(id: str) -> float | None:
    """Seconds since the epoch at which an id was made, or None for something that is no id of ours."""
    if not ID_PATTERN.fullmatch(id):
        return None
    number = 0
    for character in id[:10]:
        number = number << 5 | ALPHABET.index(character)
    return number / 1000


class History:
    """The latest translations in memory.

    `size` counts records, `bytes_limit` their approximate bytes, `seconds` their age; `errors` is for those who keep
    them elsewhere too. `wall` and `clock` are replaceable in tests; ages are measured on the monotonic `clock`, which
    no adjustment of the wall clock disturbs.
    """

    def __init__(
        self,
        size: int,
        bytes_limit: int,
        seconds: float,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size = size
        self.bytes_limit = bytes_limit
        self.seconds = seconds
        self.hits = 0
        self.misses = 0
        self.errors = 0
        self._wall = wall
        self._clock = clock
        self._records: OrderedDict[str, tuple[float, Record]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def record(self, record: Record) -> None:
        """Remembers a translation; the oldest give way."""
        self._records[record.id] = (self._clock(), record)
        self._bytes += record.size
        self._prune()

    async def find(self, id: str) -> Record:
        """The record of an id. Raises ExpiredTranslation for one that is no longer kept, UnknownTranslation for no id
        of ours, Unavailable where it may be kept elsewhere and that cannot be asked."""
        self._prune()
        entry = self._records.get(id)
        record = entry[1] if entry else await self._find_elsewhere(id) if birth(id) is not None else None
        if record is not None:
            self.hits += 1
            return record
        self.misses += 1
        raise self._refusal(id)

    async def close(self) -> None:
        """Forgets everything."""
        self._records.clear()
        self._bytes = 0

    async def _find_elsewhere(self, id: str) -> Record | None:
        return None

    def _refusal(self, id: str) -> AttentiveError:
        born = birth(id)
        if born is None or born > self._wall() + 60:
            return UnknownTranslation("No translation has this id.")
        return ExpiredTranslation(
            f"This translation is no longer kept: the server remembers {self.size:,} translations "
            f"for {self.seconds:,.0f} seconds."
        )

    def _prune(self) -> None:
        oldest = self._clock() - self.seconds
        while self._records:
            kept, record = next(iter(self._records.values()))
            if kept >= oldest and len(self._records) <= self.size and self._bytes <= self.bytes_limit:
                return
            self._bytes -= record.size
            del self._records[record.id]
