"""Spans of a text: the classes of characters that they consist of, and the places that they have in
an edited text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

Span = tuple[int, int]
"""Start and end (exclusive) in characters."""
WORD = re.compile(r"\w+")
LETTERS = re.compile(r"[^\W\d_]+")
SPACES = " \u00a0\u202f"
UNSPACED = "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts without spaces between words."""
NO_SPACES = re.compile(f"[{UNSPACED}]")


def grown(
    text: str,
    start: int,
    end: int,
    belongs: Callable[[str], bool],
    low: int = 0,
    high: int | None = None,
) -> tuple[int, int]:
    """Returns a span with the characters before and after it, in [low, high), that belong to it."""
    low, high = max(0, low), len(text) if high is None else min(high, len(text))
    while start > low and belongs(text[start - 1]):
        start -= 1
    while end < high and belongs(text[end]):
        end += 1
    return start, end


def blanked(text: str, spans: Iterable[Span], character: str = " ") -> str:
    """Returns a text with another character in place of these spans."""
    characters: list[str] = []
    for start, end in spans:
        if start < end:
            characters = characters or list(text)
            characters[start:end] = character * (end - start)
    return "".join(characters) or text


def span_around(position: int, spans: Sequence[Span]) -> Span:
    """Returns that one of the spans, which are in order, that contains a position, or the empty
    span there."""
    i = bisect_left(spans, (position, position)) - 1
    return spans[i] if i >= 0 and position < spans[i][1] else (position, position)


Run = tuple[int, int, int]
"""A part that two texts share: its start in the first, its start in the second, and its length."""


class OffsetMap:
    """Maps positions of the first text to the second. A position in a replaced part is mapped to
    its beginning."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._starts = [run[0] for run in runs]

    def position(self, position: int) -> int:
        """Returns the position in the second text."""
        i = bisect_right(self._starts, position) - 1
        if i < 0:
            return 0
        old, new, length = self._runs[i]
        return new + min(position - old, length)

    def span(self, span: Span) -> Span:
        """Returns the span of the second text. An empty one stays empty."""
        start, end = self.position(span[0]), 0
        if (i := bisect_left(self._starts, span[1]) - 1) >= 0:
            old, new, length = self._runs[i]
            is_replaced = span[1] > old + length and i + 1 < len(self._runs)
            end = self._runs[i + 1][1] if is_replaced else new + min(span[1] - old, length)
        end = max(start, end)
        return start if span[0] < span[1] else end, end


def edited(text: str, edits: Sequence[tuple[int, int, str]]) -> tuple[str, tuple[Run, ...]]:
    """Returns the text with each part [start, end) replaced, and the runs that both texts share.
    The edits are in order and do not overlap."""
    parts: list[str] = []
    runs: list[Run] = []
    done = length = 0
    for start, end, replacement in (*edits, (len(text), len(text), "")):
        runs.append((done, length, start - done))
        parts += (text[done:start], replacement)
        length += start - done + len(replacement)
        done = end
    return "".join(parts), tuple(runs)
