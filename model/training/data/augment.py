"""Variants of training pairs that real input brings: all lower, ALL CAPS, no end punctuation, text copied through, names
and numbers that the corpus never saw, masked spans, and a symbol that asks for a form of address."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.symbols import FORMAL, INFORMAL, PLACEHOLDERS
from model.training.data.formality import form_of_address
from model.training.data.placeholders import mask_shared_spans
from model.training.data.shards import Shard
from model.training.data.vocabulary import has_symbols

_KINDS = ("lower", "upper", "bare", "copy", "names", "numbers", "placeholders", "formality")
_SYMBOLS = {"placeholders": PLACEHOLDERS, "formality": (FORMAL, INFORMAL)}
"""What the vocabulary must have for a kind."""
_GROWTH = {"lower": 1.2, "upper": 2.2, "names": 1.2}
_NAME = re.compile(r"\b[A-ZÀ-Þ][a-zß-ÿ]{2,}\b")
_NUMBER = re.compile(r"\d+")


class Augmenter:
    """Rewrites a share of the pairs; pairs are ids without specials. `rates` gives the share of each kind: "lower" writes
    the source in lower case (the target stays), "upper" both sides in capitals, "bare" drops the final full stop on both
    sides, "copy" reads the target's own text (input that is in the target language already), "names" puts another of
    `names` in the place of one that stands on both sides, "numbers" other digits for a number that does, "placeholders"
    masks spans that stand on both sides (see `mask_shared_spans`), "formality" puts the target's form of address first in
    the source where the target's words tell it. Pairs to which its kind does not apply stay as they are.
    Raises ValueError for an unknown kind, and where the vocabulary lacks the symbols of one."""

    def __init__(
        self, processor: sentencepiece.SentencePieceProcessor, rates: Mapping[str, float], names: Sequence[str] = ()
    ) -> None:
        if unknown := sorted(set(rates) - set(_KINDS)):
            raise ValueError(f"[data.augment] has unknown kinds: {', '.join(unknown)}.")
        for kind, symbols in _SYMBOLS.items():
            if rates.get(kind) and not has_symbols(processor, symbols):
                raise ValueError(f"[data.augment] {kind} needs a vocabulary with {symbols[0]}; see [vocabulary] start.")
        self._processor: Any = processor
        self._rates = [rates.get(kind, 0.0) for kind in _KINDS]
        self._names, self._known = names, frozenset(names)

    def choose(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """How each of `count` pairs is rewritten, 0 for not at all."""
        kinds = np.searchsorted(np.cumsum(self._rates), random.random(count), side="right")
        return np.asarray((kinds + 1) % (len(_KINDS) + 1), dtype=np.int64)

    def grown(
        self, kinds: NDArray[np.int64], sources: NDArray[np.int64], targets: NDArray[np.int64], longest: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lengths to reserve for rewritten pairs: capitals take more pieces; none is foreseen to grow past `longest`."""
        factors = np.array([1.0, *(_GROWTH.get(kind, 1.0) for kind in _KINDS)])[kinds]
        sources, targets = (
            np.maximum(lengths, np.minimum(np.ceil(lengths * factors), longest)).astype(np.int64)
            for lengths in (np.where(kinds == number_of("copy"), targets + 1, sources), targets)
        )
        return sources + (kinds == number_of("formality")), targets

    def rewrite(
        self, number: int, source: NDArray[np.int64], target: NDArray[np.int64], random: np.random.Generator,
        language: str = "",
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target as kind `number` of `choose` has them; as they are where it does not apply. `language` is the
        target's."""
        kind = _KINDS[number - 1]
        if kind == "copy":
            return target, target
        if kind == "formality":
            symbol = form_of_address(self._text(target), language)
            return (source if symbol is None else np.insert(source, 0, self._processor.piece_to_id(symbol))), target
        before = self._text(source), self._text(target)
        left, right = before
        if kind == "lower":
            left = left.lower()
        elif kind == "upper":
            left, right = left.upper(), right.upper()
        elif kind == "bare":
            if left.endswith(".") and right.endswith("."):
                left, right = left[:-1], right[:-1]
        elif kind == "placeholders":
            left, right = mask_shared_spans(left, right, random, self._known)
        else:
            left, right = self._exchange(kind, left, right, random)
        if (left, right) == before:
            return source, target
        return self._ids(left), self._ids(right)

    def _exchange(self, kind: str, left: str, right: str, random: np.random.Generator) -> tuple[str, str]:
        """Other names or numbers for those that occur equally often on both sides."""
        pattern = _NAME if kind == "names" else _NUMBER
        ours, theirs = Counter(pattern.findall(left)), Counter(pattern.findall(right))
        new: dict[str, str] = {}
        for found, count in ours.items():
            if theirs[found] != count:
                continue
            if kind == "numbers":
                # One stays one: its nouns are singular.
                new[found] = found if int(found) < 2 else _other_digits(found, random)
            elif found in self._known:
                new[found] = self._names[int(random.integers(len(self._names)))]
        if not new:
            return left, right
        left, right = (pattern.sub(lambda match: new.get(match[0], match[0]), text) for text in (left, right))
        return left, right

    def _text(self, ids: NDArray[np.int64]) -> str:
        return str(self._processor.decode(ids.tolist()))

    def _ids(self, text: str) -> NDArray[np.int64]:
        return np.array(self._processor.encode(text), dtype=np.int64)


def number_of(kind: str) -> int:
    """The number by which `choose` names a kind."""
    return 1 + _KINDS.index(kind)


def shared_names(
    shard: Shard, processor: sentencepiece.SentencePieceProcessor, *, pairs: int = 200_000, least: int = 2
) -> list[str]:
    """Capitalised words that stand alike on both sides of at least `least` of `pairs` pairs, not as the first word."""
    counts: Counter[str] = Counter()
    step = max(1, len(shard.group) // pairs)
    for i in range(0, len(shard.group), step):
        english = processor.decode(shard.english[shard.english_at[i] : shard.english_at[i + 1]].tolist())
        other = processor.decode(shard.other[shard.other_at[i] : shard.other_at[i + 1]].tolist())
        inside = {match[0] for match in _NAME.finditer(english) if match.start() > 0}
        counts.update(inside & {match[0] for match in _NAME.finditer(other) if match.start() > 0})
    return sorted(name for name, count in counts.items() if count >= least)


def _other_digits(number: str, random: np.random.Generator) -> str:
    """A number of as many digits, from 2 on, that starts with 0 where this one does."""
    first = str(random.integers(1, 10)) if number[0] != "0" else "0"
    new = first + "".join(str(digit) for digit in random.integers(0, 10, len(number) - 1))
    return new if int(new) > 1 else number
