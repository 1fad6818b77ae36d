"""Variants of training pairs that real input brings: all lower, ALL CAPS, no end punctuation, text copied through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

_KINDS = ("lower", "upper", "bare", "copy")


class Augmenter:
    """Rewrites a share of the pairs; pairs are ids without specials. `rates` gives the share of each kind: "lower" writes
    the source in lower case (the target stays), "upper" both sides in capitals, "bare" drops the final full stop on both
    sides, "copy" reads the target's own text (input that is in the target language already)."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, rates: Mapping[str, float]) -> None:
        if unknown := sorted(set(rates) - set(_KINDS)):
            raise ValueError(f"[data.augment] has unknown kinds: {', '.join(unknown)}.")
        self._processor: Any = processor
        self._rates = [rates.get(kind, 0.0) for kind in _KINDS]

    def __call__(
        self, source: NDArray[np.int64], target: NDArray[np.int64], random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        draw = random.random()
        for kind, rate in zip(_KINDS, self._rates, strict=True):
            if draw < rate:
                return self._rewrite(kind, source, target)
            draw -= rate
        return source, target

    def _rewrite(
        self, kind: str, source: NDArray[np.int64], target: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if kind == "copy":
            return target, target
        left, right = self._text(source), self._text(target)
        if kind == "lower":
            left = left.lower()
        elif kind == "upper":
            left, right = left.upper(), right.upper()
        elif left.endswith(".") and right.endswith("."):
            left, right = left[:-1], right[:-1]
        new_source, new_target = self._ids(left), self._ids(right)
        # Capitals may need many more pieces; a pair that grew past twice its length stays as it was.
        if len(new_source) > 2 * len(source) + 4 or len(new_target) > 2 * len(target) + 4:
            return source, target
        return new_source, new_target

    def _text(self, ids: NDArray[np.int64]) -> str:
        return str(self._processor.decode(ids.tolist()))

    def _ids(self, text: str) -> NDArray[np.int64]:
        return np.array(self._processor.encode(text), dtype=np.int64)
