"""Finds the part of a translation that corresponds to a span of its source, from links between their words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from model.symbols import PLACEHOLDERS
from server.text.segmentation import Span

Link = tuple[Span, Span]
"""A span of the source and the span of the target that corresponds to it."""
SYMBOL = re.compile("|".join(PLACEHOLDERS))
_WORD = re.compile(r"\w+")
_CONTRACTED = re.compile(r"(?<=[^\W\d_])['’][^\W\d_]\w*")
"""The end of a word such as c'est."""
WORD_OR_SYMBOL = re.compile(rf"{SYMBOL.pattern}|\w+|[^\w\s]")


class SpanProjection:
    """Projects spans of one source onto its translation."""

    def __init__(self, source: str, target: str, links: Sequence[Link]) -> None:
        self.source = source
        self.target = target
        self.links = links
        self.words = [found.span() for found in WORD_OR_SYMBOL.finditer(target)]
        self.origins = _origins(self.words, links)

    def project(self, span: Span) -> Span:
        """Returns the span of the target. An empty span stays empty."""
        if self.source == self.target:
            return span
        start, end = self._trimmed(span)
        if (start, end) == self._trimmed((0, len(self.source))) and start < end:
            return self._all_words()
        if start == end:
            point = self._project_point(start)
            return point, point
        return self._best_run(start, end) or self._relative(start, end)

    def within_word(self, span: Span) -> Span | None:
        """Returns the same part of the same word in the target, or None if the span is no part of a word or the target
        does not have this word."""
        spans, starts = self._source_words
        i = bisect_right(spans, span[0], key=lambda word: word[0]) - 1
        if i < 0 or not spans[i][0] <= span[0] <= span[1] <= spans[i][1] or spans[i] == span:
            return None
        start, end = spans[i]
        if span in ((start, start), (end, end)):
            return None
        word = self.source[start:end]
        places = self._target_words.get(word, [])
        number = starts[word].index(start)
        return (places[number] + span[0] - start, places[number] + span[1] - start) if number < len(places) else None

    @cached_property
    def _source_words(self) -> tuple[list[Span], dict[str, list[int]]]:
        return [found.span() for found in _WORD.finditer(self.source)], _places(self.source)

    @cached_property
    def _target_words(self) -> dict[str, list[int]]:
        return _places(self.target)

    def _best_run(self, start: int, end: int) -> Span | None:
        """Returns the run of target words with the largest number of words linked to the source span minus words linked
        elsewhere, or None without links. Words without links count as neither."""
        best, best_weight = None, 0
        first, weight = 0, 0
        for i, word in enumerate(self.words):
            if not self.origins[i]:
                continue
            if weight <= 0:
                first, weight = i, 0
            weight += 1 if any(low < end and start < high for low, high in self.origins[i]) else -1
            if weight > best_weight:
                best, best_weight = (self.words[first][0], word[1]), weight
        return best

    def _relative(self, start: int, end: int) -> Span:
        """Returns the target words at the same relative position, at least one if the target has words."""
        scale = len(self.target) / max(1, len(self.source))
        low, high = start * scale, end * scale
        inside = [word for word in self.words if word[0] + word[1] > 2 * low and word[0] + word[1] < 2 * high]
        if not inside:
            inside = sorted(self.words, key=lambda word: abs(word[0] + word[1] - low - high))[:1]
        return (inside[0][0], inside[-1][1]) if inside else (round(low), round(low))

    def _project_point(self, position: int) -> int:
        """Returns the end of the target word linked to the last linked word before the point, or the same relative
        position without links. A point at the beginning or the end of the source stays there."""
        start, end = self._trimmed((0, len(self.source)))
        if position <= start or position >= end:
            return 0 if position <= start and position < end else len(self.target)
        before = [link for link in self.links if link[0][1] <= position]
        if before:
            last = max(link[0][1] for link in before)
            return self._word_end(max(link[1][1] for link in before if link[0][1] == last))
        return self._word_end(round(position * len(self.target) / max(1, len(self.source))))

    def _word_end(self, position: int) -> int:
        """Returns the end of the word around a position, or the position itself between words."""
        end = next((word[1] for word in self.words if word[0] < position < word[1]), position)
        return rest.end() if (rest := _CONTRACTED.match(self.target, end)) else end

    def _all_words(self) -> Span:
        return (self.words[0][0], self.words[-1][1]) if self.words else (0, len(self.target))

    def _trimmed(self, span: Span) -> Span:
        """Returns the span without white space at its edges; an empty span where it holds nothing else."""
        content = self.source[span[0] : span[1]]
        start = span[0] + len(content) - len(content.lstrip())
        return (start, start + len(content.strip())) if content.strip() else (span[0], span[0])


def _places(text: str) -> dict[str, list[int]]:
    """Returns where each word of a text begins."""
    found: dict[str, list[int]] = {}
    for word in _WORD.finditer(text):
        found.setdefault(word[0], []).append(word.start())
    return found


def _origins(words: Sequence[Span], links: Sequence[Link]) -> list[list[Span]]:
    """Returns the linked spans of the source for each target word. `words` are in order."""
    found: list[list[Span]] = [[] for _ in words]
    starts = [word[0] for word in words]
    for source, (start, end) in links:
        i = max(0, bisect_right(starts, start) - 1)
        while i < len(words) and words[i][0] < end:
            if words[i][1] > start:
                found[i].append(source)
            i += 1
    return found
