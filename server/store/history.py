"""History: translation id -> source and target tokens, for attention requests by id.

Translations wait in memory and are written to the store twice a second. A failing store loses
history records and never fails a translation. An id embeds its creation time, which distinguishes
an expired id (410) from one that was never issued (404).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import lru_cache
from operator import attrgetter

import orjson
from pydantic import TypeAdapter

from model.search.options import DecodingOptions
from server.errors import AttentiveError, ExpiredTranslation, NotFound, StateUnreachable
from server.kept import kept
from server.store.interface import Bounds, Store

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32, as in ULID
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_LETTERS = (8 * ALPHABET).encode()
"""The letter of five bits of each byte."""
ID_PATTERN = re.compile(f"[0-7][{ALPHABET}]{{25}}")


@dataclass(slots=True)
class SentenceRecord:
    """One sentence with the token ids that the model read and wrote; none if it was copied. `typed`
    is the text where the model read `source_text` in another case. `originals` are spans of the
    text by the words that were read in their place.

    The first `forced` tokens of the target were given. `ended` says that the end of sentence was
    forced too. `options` are those of the decode where they are not those of the leg. `scores` are
    the log-probabilities of the target, unless the worker can compute them again to the bit."""

    source_text: str
    source: tuple[int, ...]
    target: tuple[int, ...] = ()
    typed: str = ""
    originals: dict[str, str] = field(default_factory=dict)
    forced: int = 0
    ended: bool = False
    options: DecodingOptions | None = None
    scores: tuple[float, ...] = ()

    @property
    def copied(self) -> bool:
        return not self.source


@dataclass(slots=True)
class LegRecord:
    """The sentences that one model translated; a pivot language makes two legs. `computation`
    (`WorkerReady.computation`) and `options` say how they were decoded; both are empty in the
    records of older versions."""

    model: str
    source_language: str
    target_language: str
    sentences: tuple[SentenceRecord, ...]
    computation: str = ""
    options: DecodingOptions | None = None


@dataclass(slots=True)
class TranslationRecord:
    """One translation. `created` is in seconds since the epoch."""

    id: str
    created: float
    legs: tuple[LegRecord, ...]


def encoded(record: TranslationRecord) -> bytes:
    """Returns a record as JSON without default values. Other threads run between the sentences."""
    return orjson.dumps(record, _values, orjson.OPT_PASSTHROUGH_DATACLASS)


def _is_required(item: Field[object]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


_FIELDS = {
    kind: (
        names := [item.name for item in fields(kind)],
        attrgetter(*names),
        {item.name for item in fields(kind) if _is_required(item)},
    )
    for kind in (TranslationRecord, LegRecord, SentenceRecord)
}
"""Names and values of the fields, and the fields without a default. All defaults are false."""


def _values(
    record: TranslationRecord | LegRecord | SentenceRecord | DecodingOptions,
) -> dict[str, object]:
    """Returns the fields without a default or with another value."""
    if isinstance(record, DecodingOptions):
        return _options(record)
    names, values, required = _FIELDS[type(record)]
    pairs = zip(names, values(record), strict=True)
    return {name: value for name, value in pairs if value or name in required}


@kept(256)
def _options(options: DecodingOptions) -> dict[str, object]:
    values = {item.name: (getattr(options, item.name), item.default) for item in fields(options)}
    return {name: value for name, (value, default) in values.items() if value != default}


def new_id(now: float | None = None) -> str:
    """Returns a ULID: 26 characters of 48 bits of milliseconds since the epoch and 80 random bits."""
    return (
        _written(int(1000 * (time.time() if now is None else now)))
        + os.urandom(16).translate(_LETTERS).decode()
    )


@lru_cache(1)
def _written(milliseconds: int) -> str:
    milliseconds &= 2**48 - 1
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in (40, 30, 20, 10, 0)])


def creation_time(id: str) -> float | None:
    """Returns the creation time of an id in seconds since the epoch; None for another text."""
    if not ID_PATTERN.fullmatch(id):
        return None
    number = 0
    for character in id[:10]:
        number = number << 5 | ALPHABET.index(character)
    return number / 1000


log = logging.getLogger(__name__)
NAME = "history"
CLOCK_SKEW_SECONDS = 60
"""An id from further in the future was issued by no server."""
BATCH_RECORDS = 500
"""Most records of a write."""
RECENT_SECONDS = 1.0
"""Age of a translation that another server may not have written yet."""
_RECORD = TypeAdapter(TranslationRecord)


class History:
    """The latest translations within the `bounds`. While the store fails, records wait in memory; the
    oldest are dropped first. `errors` counts failures, `lost` dropped records. Belongs to one event
    loop."""

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
        """Adds an encoded translation. Drops the oldest unwritten ones beyond the bounds."""
        self._unwritten[id] = data
        self._unwritten_bytes += len(data)
        while len(self._unwritten) > 1 and (
            len(self._unwritten) > self.bounds.size or self._unwritten_bytes > self.bounds.bytes
        ):
            self._remove_unwritten(next(iter(self._unwritten)))
            self.lost += 1

    async def find(self, id: str) -> TranslationRecord:
        """Returns the record of an id. Raises ExpiredTranslation for a removed record, NotFound for a
        text that is not an id, and StateUnreachable."""
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
        """Writes the waiting records, the oldest first, and keeps them where the store fails. Records
        that come meanwhile wait for the next beat, because each write is a pass over all records."""
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
            f"This translation is no longer kept: the server remembers {self.bounds.size:,} "
            "translations "
            f"for {self.bounds.seconds:,.0f} seconds."
        )

    async def _read(self, id: str) -> bytes | None:
        try:
            return await self._store.find(NAME, id)
        except StateUnreachable:
            self.errors += 1
            raise

    def _remove_unwritten(self, id: str) -> None:
        # it may have been dropped meanwhile
        self._unwritten_bytes -= len(self._unwritten.pop(id, b""))
