"""Records of translations in the history, and their ids."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field

import orjson

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32, as in ULID
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
LONG = 1_000
"""Sentences of a leg from which on its record is long."""
ID_PATTERN = re.compile(f"[0-7][{ALPHABET}]{{25}}")


@dataclass(slots=True)
class SentenceRecord:
    """One sentence with the token ids that the model read and wrote. A sentence that was copied instead of translated
    has no tokens. `source_text` was read; `typed` is given where letters of it were typed in another case.
    `originals` are the spans of the text for which other words were read, by these."""

    source_text: str
    source: tuple[int, ...]
    target: tuple[int, ...]
    typed: str = ""
    originals: dict[str, str] = field(default_factory=dict)

    @property
    def copied(self) -> bool:
        """Whether the sentence was copied instead of translated."""
        return not self.source


@dataclass(slots=True)
class LegRecord:
    """The sentences that one model translated. A translation through a pivot language has two legs."""

    model: str
    source_language: str
    target_language: str
    sentences: tuple[SentenceRecord, ...]


@dataclass(slots=True)
class TranslationRecord:
    """One translation. `created` is in seconds since the epoch."""

    id: str
    created: float
    legs: tuple[LegRecord, ...]


def encoded(record: TranslationRecord) -> bytes:
    """Returns a record as JSON. Other threads run between the sentences of a long one."""
    is_long = any(len(leg.sentences) > LONG for leg in record.legs)
    return orjson.dumps(record, default=_fields, option=orjson.OPT_PASSTHROUGH_DATACLASS if is_long else None)


def _fields(record: TranslationRecord | LegRecord | SentenceRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__slots__}


def new_id(now: float | None = None) -> str:
    """Returns a ULID: 48 bits of milliseconds since the epoch and 80 random bits in 26 characters, sortable by time."""
    milliseconds = int(1000 * (time.time() if now is None else now)) & (2**48 - 1)
    number = milliseconds << 80 | secrets.randbits(80)
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def creation_time(id: str) -> float | None:
    """Returns the creation time of an id in seconds since the epoch, or None where the text is not an id."""
    if not ID_PATTERN.fullmatch(id):
        return None
    number = 0
    for character in id[:10]:
        number = number << 5 | ALPHABET.index(character)
    return number / 1000
