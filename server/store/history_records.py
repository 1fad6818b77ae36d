"""Records of translations in the history, and their ids."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter

import orjson

from model.search.options import DecodingOptions
from server.kept import kept

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32, as in ULID
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_LETTERS = (8 * ALPHABET).encode()
"""The letter of five of the bits of each byte."""
ID_PATTERN = re.compile(f"[0-7][{ALPHABET}]{{25}}")


@dataclass(slots=True)
class SentenceRecord:
    """One sentence with the token ids that the model read and wrote. A sentence that was copied instead of translated
    has no tokens. `source_text` was read; `typed` is given where letters of it were typed in another case.
    `originals` are the spans of the text for which other words were read, by these.

    The first `forced` tokens of the target were given. `ended` says that the end of sentence was forced too, which counts
    as certain. `options` are those of the decode where they are not those of the leg. `scores` are the log-probabilities
    of the target where the worker cannot compute them again to the bit."""

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
        """Whether the sentence was copied instead of translated."""
        return not self.source


@dataclass(slots=True)
class LegRecord:
    """The sentences that one model translated. A translation through a pivot language has two legs. `computation` says on
    what they were decoded (`WorkerReady.computation`), and `options` how, the shortlist included; both are empty in the
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
    """Returns a record as JSON, without fields that have their default. Other threads run between the sentences."""
    return orjson.dumps(record, default=_fields, option=orjson.OPT_PASSTHROUGH_DATACLASS)


_FIELDS: dict[type, tuple[list[str], Callable[[object], tuple[object, ...]], frozenset[str]]] = {
    kind: (
        [each.name for each in fields(kind)],
        attrgetter(*[each.name for each in fields(kind)]),
        frozenset([each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]),
    )
    for kind in (TranslationRecord, LegRecord, SentenceRecord)
}
"""The fields of each kind, a function that returns their values, and the fields without a default. All defaults are false."""


def _fields(record: TranslationRecord | LegRecord | SentenceRecord | DecodingOptions) -> dict[str, object]:
    if isinstance(record, DecodingOptions):
        return _options(record)
    names, values, required = _FIELDS[type(record)]
    pairs = zip(names, values(record), strict=True)
    return {name: value for name, value in pairs if value or name in required}


@kept(256)
def _options(options: DecodingOptions) -> dict[str, object]:
    """Returns what is not the default; translations share few options."""
    values = {each.name: (getattr(options, each.name), each.default) for each in fields(options)}
    return {name: value for name, (value, default) in values.items() if value != default}


def new_id(now: float | None = None) -> str:
    """Returns a ULID: 48 bits of milliseconds since the epoch and 80 random bits in 26 characters, sortable by time."""
    milliseconds = int(1000 * (time.time() if now is None else now)) & (2**48 - 1)
    written = "".join([_PAIRS[milliseconds >> shift & 1023] for shift in (40, 30, 20, 10, 0)])
    return written + secrets.token_bytes(16).translate(_LETTERS).decode()


def creation_time(id: str) -> float | None:
    """Returns the creation time of an id in seconds since the epoch, or None where the text is not an id."""
    if not ID_PATTERN.fullmatch(id):
        return None
    number = 0
    for character in id[:10]:
        number = number << 5 | ALPHABET.index(character)
    return number / 1000
