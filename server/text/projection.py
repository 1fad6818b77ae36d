"""Finds the part of a translation that corresponds to a span of its source, from links between their words."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from server.text.reading import SYMBOL
from server.text.segmentation import Span, span_around

Link = tuple[Span, Span]
"""A span of the source and the span of the target that corresponds to it."""
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)+|\w+(?:[+#]{2,}|[+#−]+(?!\w))?")
"""A word, or what is never divided: 7:45, C++."""
_CONTRACTED = re.compile(r"(?:(?<=[^\W\d_])['’-][^\W\d_]\w*)+")
"""The end of a word such as c'est and a-t-il."""
WORD_OR_SYMBOL = re.compile(rf"{_TOKEN.pattern}|(?=[<\u2047\ufffd])(?:{SYMBOL.pattern})|[^\w\s]")


class SpanProjection:
    """Projects spans of one source onto its translation, and not within its parts `whole`."""

    def __init__(self, source: str, target: str, links: Sequence[Link], whole: Sequence[Span] = ()) -> None:
        self.source = source
        self.target = target
        self._links = links
        self._whole = self._trimmed((0, len(source)))
        self.words = [found.span() for found in WORD_OR_SYMBOL.finditer(target)]
        for first, last in reversed(whole):
            at, end = bisect_left(self.words, (first, first)), bisect_left(self.words, (last, last))
            if end - at > 1:
                self.words[at:end] = [(first, last)]
        self._linked = _linked(self.words, links)
        self._reach = list(accumulate([source[1] for source, _ in self._linked], max))
        self._ranks = {word: rank for rank, word in enumerate(sorted({word for _, word in self._linked}))}

    def project(self, span: Span) -> Span:
        """Returns the span of the target. An empty span stays empty."""
        if self.source == self.target:
            return span
        start, end = self._trimmed(span)
        if (start, end) == self._whole and start < end:
            return (self.words[0][0], self.words[-1][1]) if self.words else (0, len(self.target))
        if start == end:
            point = self._project_point(start)
            return point, point
        return self._best_run(start, end) or self._relative(start, end)

    def within_word(self, span: Span) -> Span | None:
        """Returns the same part of the same word in the target, or None."""
        around = self.source[max(0, span[0] - 1) : span[0]] + self.source[span[1] : span[1] + 1]
        if not any(character.isalnum() or character in "_.,:+#−" for character in around):
            return None
        spans, starts = self._source_words
        i = bisect_right(spans, span[0], key=lambda word: word[0]) - 1
        if i < 0 or not spans[i][0] <= span[0] <= span[1] <= spans[i][1] or spans[i] == span:
            return None
        start, end = spans[i]
        if span in ((start, start), (end, end)):
            return None
        word = self.source[start:end]
        places = self._target_words.get(word, [])
        number = bisect_left(starts[word], start)
        return (places[number] + span[0] - start, places[number] + span[1] - start) if number < len(places) else None

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        return sorted([(source[1], goal[1]) for source, goal in self._links])

    @cached_property
    def _source_words(self) -> tuple[list[Span], dict[str, list[int]]]:
        return [found.span() for found in _TOKEN.finditer(self.source)], _places(self.source)

    @cached_property
    def _target_words(self) -> dict[str, list[int]]:
        return _places(self.target)

    def _best_run(self, start: int, end: int) -> Span | None:
        """Returns the run of target words with the most words linked to the source span minus words linked elsewhere, or None.
        Of equal runs it is the shortest, or the longest if that is linked to more source words: "no me ha escrito"."""
        around = self._linked[
            bisect_right(self._reach, start) : bisect_left(self._linked, end, key=lambda link: link[0][0])
        ]
        linked = [(source, word) for source, word in around if start < source[1]]
        shortest = longest = (0, -1)
        first, later, weight, done, heaviest = 0, 0, -1, 0, 0
        for word in sorted({word for _, word in linked}):
            weight -= self._ranks[word] - done  # those between that are linked elsewhere
            if weight < 0:
                first, weight = word, 0
            later = later if weight else word
            weight, done = weight + 1, self._ranks[word] + 1
            if weight > heaviest:
                shortest = later, word
            if weight >= heaviest:
                longest, heaviest = (first, word), weight
        sources = [{source for source, word in linked if run[0] <= word <= run[1]} for run in (shortest, longest)]
        first, last = longest if len(sources[1]) > len(sources[0]) else shortest
        return (self.words[first][0], self.words[last][1]) if linked else None

    def _relative(self, start: int, end: int) -> Span:
        scale = 2 * len(self.target) / max(1, len(self.source))
        low, high = start * scale, end * scale
        inside = self.words[bisect_right(self.words, low, key=sum) : bisect_left(self.words, high, key=sum)]
        if not inside and self.words:
            inside = [min(self.words, key=lambda at: abs(2 * sum(at) - low - high))]
        return (inside[0][0], inside[-1][1]) if inside else (0, 0)

    def _project_point(self, position: int) -> int:
        """Returns the end of the target word linked to the last linked word before the point, or the same relative position. A
        point at an end of the source stays there."""
        start, end = self._whole
        if position <= start or position >= end:
            return 0 if position <= start and position < end else len(self.target)
        if before := bisect_right(self._ends, position, key=lambda end: end[0]):
            last, end = self._ends[before - 1]
            at = self._word_end(end)
            return at + (last < position and self.target[at : at + 1] == self.source[position - 1] in ".,;:!?")
        return self._word_end(round(position * len(self.target) / len(self.source)))

    def _word_end(self, position: int) -> int:
        end = span_around(position, self.words)[1]
        return rest.end() if (rest := _CONTRACTED.match(self.target, end)) else end

    def _trimmed(self, span: Span) -> Span:
        content = self.source[slice(*span)]
        start = span[1] - len(content.lstrip())
        return (start, start + len(content.strip())) if content.strip() else (span[0], span[0])


def _places(text: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for word in _TOKEN.finditer(text):
        found.setdefault(word[0], []).append(word.start())
    return found


def _linked(words: Sequence[Span], links: Sequence[Link]) -> list[tuple[Span, int]]:
    found: list[tuple[Span, int]] = []
    starts = [word[0] for word in words]
    for source, (start, end) in links:
        i = max(0, bisect_right(starts, start) - 1)
        while i < len(words) and words[i][0] < end:
            if words[i][1] > start:
                found.append((source, i))
            i += 1
    return sorted(found)
