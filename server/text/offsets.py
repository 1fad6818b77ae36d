"""Positions of a text in another text that was made from it by replacing some of its parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from server.text.segmentation import Span

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
