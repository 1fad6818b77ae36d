"""Masking of shared spans: numbers, names, addresses and `{x}` that occur on both sides of a pair
become `<phN>`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from model.symbols import PLACEHOLDERS

_WORD = r"[A-ZÀ-Þ][\w'’-]*\w"
_SPAN = re.compile(
    rf"""
    https?://[^\s<>"]*[\w/] | www\.[^\s<>"]*[\w/] | [\w.+-]+@[\w-]+(?:\.\w+)+   # addresses
    | \{{[^{{}}\s]{{1,30}}\}} | %[sd]                                          # variables of a program
    | (?<![\w.,])\d+(?:[.,:/-]\d+)*(?![\w%]|[.,:/-]\d)                         # numbers
    | \b{_WORD}(?:[ ]{_WORD})*                                                 # names, of several words too
    """,
    re.VERBOSE,
)
_NAME = re.compile(rf"\b{_WORD}")
_MASKED_SHARE = 0.75
"""Share of the shared spans that are masked, so that texts have masked and plain spans."""


def mask_shared_spans(
    left: str, right: str, random: np.random.Generator, names: Collection[str] = ()
) -> tuple[str, str]:
    """Returns both texts with most of the spans that occur equally often in both replaced by
    placeholders. Every distinct span gets its own number, drawn from 1 to 9. A single word at the
    beginning of a text counts as a name only if it is in `names`."""
    free = [PLACEHOLDERS[i] for i in random.permutation(len(PLACEHOLDERS))]
    kept: set[str] = set()  # words of spans that were drawn to stay
    for pattern in (_SPAN, _NAME):  # names of several words first, then word by word
        masks: dict[str, str] = {}
        for span, count in Counter(pattern.findall(left)).items():
            if not free or span in kept or not _occurs_equally(span, count, left, right, pattern):
                continue
            if (
                _NAME.fullmatch(span)
                and span not in names
                and (left.startswith(span) or right.startswith(span))
            ):
                continue
            if random.random() < _MASKED_SHARE:
                masks[span] = free.pop()
            else:
                kept.update(span.split())
        left, right = _replace(pattern, left, masks), _replace(pattern, right, masks)
    return left, right


def _occurs_equally(span: str, count: int, left: str, right: str, pattern: re.Pattern[str]) -> bool:
    """Returns whether the span occurs `count` times in both texts, never inside another span."""
    return pattern.findall(right).count(span) == left.count(span) == right.count(span) == count


def _replace(pattern: re.Pattern[str], text: str, masks: Mapping[str, str]) -> str:
    return pattern.sub(lambda match: masks.get(match[0], match[0]), text)
