"""Putting inline markup around the words of a translation that the same words of the source stood for."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.text.segmentation import Span

Link = tuple[Span, Span]
"""Characters of the source and the characters of the target that come from them."""
WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
_GROWN = re.compile(r"[^\W_]\0[^\W_]|\d[.,'’]?\0[.,'’]?\d")
"""Two words or numbers that would read as one where a seam, the \\0, is closed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Inline markup of a text: `opening` stands before `span`, `closing` after it. A point has an empty span and no
    closing. `order` and `end_order` number the tags of a text as they were written: one mark lies in another where its
    numbers do."""

    opening: str
    closing: str
    span: Span
    order: int
    end_order: int


def place_marks(marks: Sequence[Mark], source: str, target: str, links: Sequence[Link], write: Callable[[str], str]) -> str:
    """The target with all marks of the source, each exactly once and properly nested, its text passed through `write`.

    `links` may overlap and may leave parts out; where none covers a mark, it keeps its place relative to the whole.
    """
    finder = _Finder(source, target, links)
    parts: list[tuple[str, bool]] = []  # with whether it is of a mark

    def emit(inside: Sequence[Mark], start: int, end: int) -> None:
        """Everything from `start` to `end` of the target, with the marks that lie there."""
        cursor = start
        placed = sorted(_outermost(inside, finder), key=lambda item: (item[1][0], item[0].order))
        for mark, (wanted_start, wanted_end), children in placed:
            first = min(max(wanted_start, cursor), end)
            last = min(max(wanted_end, first), end)
            parts.extend(((write(target[cursor:first]), False), (mark.opening, True)))
            emit(children, first, last)
            parts.append((mark.closing, True))
            cursor = last
        parts.append((write(target[cursor:end]), False))

    emit(marks, 0, len(target))
    return "".join(text for text, _ in parts) if source == target else _apart(parts)


def _apart(parts: Sequence[tuple[str, bool]]) -> str:
    """All parts in a row; a word or number that was taken out does not grow together with another."""
    joined, after_mark = "", False
    for text, mark in parts:
        if not text:
            continue
        if (mark or after_mark) and _GROWN.search(f"{joined[-2:]}\0{text[:2]}"):
            joined += " "
        joined += text
        after_mark = mark
    return joined


def _outermost(marks: Sequence[Mark], finder: _Finder) -> list[tuple[Mark, Span, list[Mark]]]:
    """Marks that lie in no other, each with its place in the target and the marks within it. `marks` are in order."""
    found: list[tuple[Mark, Span, list[Mark]]] = []
    for mark in marks:
        if found and mark.order < found[-1][0].end_order:
            found[-1][2].append(mark)
        else:
            found.append((mark, finder.find(mark.span), []))
    return found


class _Finder:
    """Finds the place in the target of a span of the source."""

    def __init__(self, source: str, target: str, links: Sequence[Link]) -> None:
        self.source = source
        self.target = target
        self.links = links
        self.words = [found.span() for found in WORD_OR_MARK.finditer(target)]
        self.origins = origins(self.words, links)

    def find(self, span: Span) -> Span:
        if self.source == self.target:
            return span
        start, end = self._trimmed(span)
        if (start, end) == self._trimmed((0, len(self.source))) and start < end:
            return self._edges()
        if start == end:
            point = self._point(start)
            return point, point
        return self._run(start, end) or self._relative(start, end)

    def _run(self, start: int, end: int) -> Span | None:
        """The run of target words in which those that come from the source span most outweigh those that do not."""
        best, best_weight = None, 0
        first, weight = 0, 0
        for i, word in enumerate(self.words):
            if not self.origins[i]:
                continue  # a word that comes from nowhere neither helps nor harms
            if weight <= 0:
                first, weight = i, 0
            weight += 1 if any(begin < end and start < finish for begin, finish in self.origins[i]) else -1
            if weight > best_weight:
                best, best_weight = (self.words[first][0], word[1]), weight
        return best

    def _relative(self, start: int, end: int) -> Span:
        """The target words at the same relative place, at least one where there is one."""
        scale = len(self.target) / max(1, len(self.source))
        low, high = start * scale, end * scale
        inside = [word for word in self.words if word[0] + word[1] > 2 * low and word[0] + word[1] < 2 * high]
        if not inside:
            inside = sorted(self.words, key=lambda word: abs(word[0] + word[1] - low - high))[:1]
        return (inside[0][0], inside[-1][1]) if inside else (round(low), round(low))

    def _point(self, position: int) -> int:
        """Where a point goes: after the word that stood before it in the source, or before the one that stood after
        it."""
        start, end = self._trimmed((0, len(self.source)))
        if position <= start or position >= end:
            return 0 if position <= start and position < end else len(self.target)
        before = [link for link in self.links if link[0][1] <= position]
        if before:
            last = max(link[0][1] for link in before)
            return self._word_end(max(link[1][1] for link in before if link[0][1] == last))
        return self._word_end(round(position * len(self.target) / max(1, len(self.source))))

    def _word_end(self, position: int) -> int:
        return next((word[1] for word in self.words if word[0] < position < word[1]), position)

    def _edges(self) -> Span:
        return (self.words[0][0], self.words[-1][1]) if self.words else (0, len(self.target))

    def _trimmed(self, span: Span) -> Span:
        content = self.source[span[0] : span[1]]
        start = span[0] + len(content) - len(content.lstrip())
        return (start, start + len(content.strip())) if content.strip() else (span[0], span[0])


def origins(words: Sequence[Span], links: Sequence[Link]) -> list[list[Span]]:
    """For each word of the target, in order, the parts of the source that it comes from."""
    found: list[list[Span]] = [[] for _ in words]
    starts = [word[0] for word in words]
    for source, (start, end) in links:
        i = max(0, bisect_right(starts, start) - 1)
        while i < len(words) and words[i][0] < end:
            if words[i][1] > start:
                found[i].append(source)
            i += 1
    return found
