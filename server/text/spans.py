"""Spans of a text, classes of characters, and positions in an edited text."""

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
    low: int,
    high: int | None = None,
) -> tuple[int, int]:
    """Returns a span extended, within [low, high), by the neighbouring characters that `belongs`
    accepts."""
    low, high = max(0, low), len(text) if high is None else min(high, len(text))
    while start > low and belongs(text[start - 1]):
        start -= 1
    while end < high and belongs(text[end]):
        end += 1
    return start, end


def blanked(text: str, spans: Iterable[Span], character: str = " ") -> str:
    """Returns a text with the characters of the spans replaced."""
    characters: list[str] = []
    for start, end in spans:
        if start < end:
            characters = characters or list(text)
            characters[start:end] = character * (end - start)
    return "".join(characters) or text


def span_around(position: int, spans: Sequence[Span]) -> Span:
    """Returns the span that contains a position, or the empty span there. `spans` are sorted."""
    i = bisect_left(spans, (position, position)) - 1
    return spans[i] if i >= 0 and position < spans[i][1] else (position, position)


Run = tuple[int, int, int]
"""A part that two texts share: its start in the first and in the second text, and its length."""


class OffsetMap:
    """Maps positions of a text to an edited text. Positions in a replaced part map to its start."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._starts = [run[0] for run in runs]

    def position(self, position: int) -> int:
        i = bisect_right(self._starts, position) - 1
        if i < 0:
            return 0
        old, new, length = self._runs[i]
        return new + min(position - old, length)

    def span(self, span: Span) -> Span:
        """Returns the span in the edited text. An empty span stays empty."""
        start, end = self.position(span[0]), 0
        if (i := bisect_left(self._starts, span[1]) - 1) >= 0:
            old, new, length = self._runs[i]
            is_replaced = span[1] > old + length and i + 1 < len(self._runs)
            end = self._runs[i + 1][1] if is_replaced else new + min(span[1] - old, length)
        end = max(start, end)
        return start if span[0] < span[1] else end, end


def edited(text: str, edits: Sequence[tuple[int, int, str]]) -> tuple[str, tuple[Run, ...]]:
    """Returns a text after edits (start, end, replacement), and the runs that both texts share. The
    edits are sorted and do not overlap."""
    parts: list[str] = []
    runs: list[Run] = []
    done = length = 0
    for start, end, replacement in (*edits, (len(text), len(text), "")):
        runs.append((done, length, start - done))
        parts += (text[done:start], replacement)
        length += start - done + len(replacement)
        done = end
    return "".join(parts), tuple(runs)
