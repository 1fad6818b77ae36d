"""Sentence pairs of a translation memory, and the part of them that judges an adapted model."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

LEAST_PAIRS = 100
"""Fewest pairs, terms aside, that a model can be adapted to: the tenth of fewer says nothing about a model."""
KEPT_SHARE, MOST_KEPT = 10, 1_000
"""One of so many pairs is kept for the judgement, and at most so many pairs."""
LEAST_DOCUMENTS = 20
"""Documents of a memory from which on whole documents are kept. A part of fewer is not like the rest."""
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Pair:
    """A text, its translation, and the name of the document that they are from. `term` marks an entry of a glossary."""

    source: str
    target: str
    document: str = ""
    term: bool = False


def folded(text: str) -> str:
    """Returns a text without white space, in small letters and with a zero for each number. Texts with equal ones say the
    same to a model."""
    return _DIGITS.sub("0", "".join(text.split()).casefold())


def split(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Returns the pairs for the training and those for the judgement, whose sources are not among the former. The same
    pairs are always split alike. Whole documents are kept if there are enough, else single sources; terms are not kept."""
    texts = [pair for pair in pairs if not pair.term]
    size = min(len(texts) // KEPT_SHARE, MOST_KEPT)
    kept: list[Pair] = []
    if len({pair.document for pair in texts}) >= LEAST_DOCUMENTS:
        kept = _drawn(texts, size, lambda pair: pair.document)
    if 2 * len(kept) < size:  # its documents are too large
        kept = _drawn(texts, size, lambda pair: folded(pair.source))
    sources = {folded(pair.source) for pair in kept}
    return [pair for pair in pairs if pair.term or folded(pair.source) not in sources], kept


def _drawn(pairs: Iterable[Pair], size: int, group: Callable[[Pair], str]) -> list[Pair]:
    """Returns the pairs of whole groups, at most `size` pairs, in an order that depends on the names of the groups only."""
    groups: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[group(pair)].append(pair)
    drawn: list[Pair] = []
    for name in sorted(groups, key=lambda name: blake2b(name.encode(), digest_size=8).digest()):
        if len(drawn) + len(groups[name]) <= size:
            drawn += groups[name]
    return drawn
