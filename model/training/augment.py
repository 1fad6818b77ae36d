"""Variants of training pairs that real input brings: all lower, ALL CAPS, no end punctuation, text copied through, names
and numbers that the corpus never saw."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.training.shards import Shard

_KINDS = ("lower", "upper", "bare", "copy", "names", "numbers")
_NAME = re.compile(r"\b[A-ZÀ-Þ][a-zß-ÿ]{2,}\b")
_NUMBER = re.compile(r"\d+")


class Augmenter:
    """Rewrites a share of the pairs; pairs are ids without specials. `rates` gives the share of each kind: "lower" writes
    the source in lower case (the target stays), "upper" both sides in capitals, "bare" drops the final full stop on both
    sides, "copy" reads the target's own text (input that is in the target language already), "names" puts another of
    `names` in the place of one that stands on both sides, "numbers" other digits for a number that does."""

    def __init__(
        self, processor: sentencepiece.SentencePieceProcessor, rates: Mapping[str, float], names: Sequence[str] = ()
    ) -> None:
        if unknown := sorted(set(rates) - set(_KINDS)):
            raise ValueError(f"[data.augment] has unknown kinds: {', '.join(unknown)}.")
        self._processor: Any = processor
        self._rates = [rates.get(kind, 0.0) for kind in _KINDS]
        self._names, self._known = names, frozenset(names)

    def choose(self, count: int, random: np.random.Generator) -> list[tuple[int, str]]:
        """Which of `count` pairs are rewritten, and how."""
        kinds = np.searchsorted(np.cumsum(self._rates), random.random(count), side="right")
        return [(int(row), _KINDS[kinds[row]]) for row in np.flatnonzero(kinds < len(_KINDS))]

    def rewrite(
        self, kind: str, source: NDArray[np.int64], target: NDArray[np.int64], random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if kind == "copy":
            return target, target
        before = self._text(source), self._text(target)
        left, right = before
        if kind == "lower":
            left = left.lower()
        elif kind == "upper":
            left, right = left.upper(), right.upper()
        elif kind == "bare":
            if left.endswith(".") and right.endswith("."):
                left, right = left[:-1], right[:-1]
        else:
            left, right = self._exchange(kind, left, right, random)
        if (left, right) == before:
            return source, target
        new_source, new_target = self._ids(left), self._ids(right)
        # Capitals may need many more pieces; a pair that grew past twice its length stays as it was.
        if len(new_source) > 2 * len(source) + 4 or len(new_target) > 2 * len(target) + 4:
            return source, target
        return new_source, new_target

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
