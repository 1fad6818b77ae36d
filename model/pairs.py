"""Sentence pairs of a translation memory, and the part of them that judges an adapted model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

LEAST_PAIRS = 100
"""Fewest pairs, terms aside, that a model can be adapted to: a tenth of fewer cannot judge a
model."""
KEPT_SHARE, MOST_KEPT = 10, 1_000
"""One of KEPT_SHARE pairs is kept for the judgement, at most MOST_KEPT."""
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and its translation. `term` marks an entry of a glossary."""

    source: str
    target: str
    term: bool = False


def folded(text: str) -> str:
    """Returns a text without white space, in small letters and with a zero for each number. Texts
    that are equal then say the same to a model."""
    return _DIGITS.sub("0", "".join(text.split()).casefold())


def split(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Returns the pairs for training and those for judgement, whose sources are neither terms nor
    among the former. The hash of its source decides about a pair, so the same pairs are always
    split alike."""
    terms = {folded(pair.source) for pair in pairs if pair.term}
    texts = sorted([pair for pair in pairs if folded(pair.source) not in terms], key=_place)
    kept = texts[: min(len(texts) // KEPT_SHARE, MOST_KEPT)]
    sources = {folded(pair.source) for pair in kept}
    return [pair for pair in pairs if folded(pair.source) not in sources], kept


def _place(pair: Pair) -> tuple[bytes, str]:
    return blake2b(folded(pair.source).encode(), digest_size=8).digest(), pair.target
