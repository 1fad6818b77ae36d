"""Pairs whose shared spans are masked: numbers, names, addresses and `{x}` that stand alike on both sides become `<phN>`."""

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
_SHARE = 0.75
"""Of the spans that could be masked, so that masked and plain ones stand side by side."""


def mask_shared_spans(left: str, right: str, random: np.random.Generator, names: Collection[str] = ()) -> tuple[str, str]:
    """Both texts with most of the spans that occur equally often in both replaced by placeholders, one number for each
    distinct span, drawn from 1 to 9. A single word that begins a text counts as a name only if it is one of `names`.
    Texts without such spans come back as they are."""
    free = [PLACEHOLDERS[i] for i in random.permutation(len(PLACEHOLDERS))]
    kept: set[str] = set()  # words of spans that chance left as they are
    for pattern in (_SPAN, _NAME):  # names of several words first, then word by word
        masks: dict[str, str] = {}
        for span, count in Counter(pattern.findall(left)).items():
            if not free or span in kept or not _alike(span, count, left, right, pattern):
                continue
            if _NAME.fullmatch(span) and span not in names and (left.startswith(span) or right.startswith(span)):
                continue
            if random.random() < _SHARE:
                masks[span] = free.pop()
            else:
                kept.update(span.split())
        left, right = _exchanged(pattern, left, masks), _exchanged(pattern, right, masks)
    return left, right


def _alike(span: str, count: int, left: str, right: str, pattern: re.Pattern[str]) -> bool:
    """Whether the span occurs `count` times in both texts, and nowhere as a part of another one."""
    return pattern.findall(right).count(span) == left.count(span) == right.count(span) == count


def _exchanged(pattern: re.Pattern[str], text: str, masks: Mapping[str, str]) -> str:
    return pattern.sub(lambda match: masks.get(match[0], match[0]), text)
