"""Projects spans of a text onto its translation by links between their words."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from server.text.reading import SYMBOL
from server.text.spans import Span, span_around

Link = tuple[Span, Span]
"""A span of the source and the corresponding span of the target."""
WORD_OR_SYMBOL = re.compile(
    rf"\d+(?:[.,:]\d+)+|\w+(?:[+#]{{2,}}|[+#−]+(?!\w))?|(?=[<\u2047\ufffd])(?:{SYMBOL.pattern})|[^\w\s]"
)
"""A word, a token that is never divided (7:45, C++), or a sign."""
_CONTRACTED = re.compile(r"(?:(?<=[^\W\d_])['’-][^\W\d_]\w*)+")
"""The end of words such as c'est and a-t-il."""


class SpanProjection:
    """Projects spans of one source onto its translation, never into the spans `whole` of this."""

    def __init__(
        self, source: str, target: str, links: Sequence[Link], whole: Sequence[Span] = ()
    ) -> None:
        self.source = source
        self.target = target
        self._links = links
        self._whole = self._trimmed((0, len(source)))
        self.words = [found.span() for found in WORD_OR_SYMBOL.finditer(target)]
        for first, last in (*reversed(whole), *sorted({goal for _, goal in links}, reverse=True)):
            at, end = bisect_left(self.words, (first, first)), bisect_left(self.words, (last, last))
            if end - at > 1 and self.words[at][0] == first:
                self.words[at:end] = [(first, last)]
        self._linked = _linked(self.words, links)
        self._reach = list(accumulate([source[1] for source, _ in self._linked], max))
        self._sources: dict[int, list[Span]] = {}
        for span, word in self._linked:
            self._sources.setdefault(word, []).append(span)
        self._order = sorted(self._sources)

    def project(self, span: Span) -> Span:
        """Returns the span in the target. An empty span stays empty."""
        if self.source == self.target:
            return span
        start, end = self._trimmed(span)
        if (start, end) == self._whole and start < end:
            return (self.words[0][0], self.words[-1][1]) if self.words else (0, len(self.target))
        if start == end:
            point = self._project_point(start)
            return point, point
        return self._best_run((start, end)) or self._relative(start, end)

    def within_word(self, span: Span) -> Span | None:
        """Returns the span of a part of a word in the same word of the target, or None."""
        around = self.source[max(0, span[0] - 1) : span[0]] + self.source[span[1] : span[1] + 1]
        if not any(character.isalnum() or character in "_.,:+#−" for character in around):
            return None
        spans, starts = self._source_words
        i = bisect_right(spans, span[0], key=lambda word: word[0]) - 1
        start, end = spans[i] if i >= 0 else (0, 0)
        if not start <= span[0] <= span[1] <= end or {*span} <= {start, end}:
            return None
        word = self.source[start:end]
        places = self._target_words.get(word, [])
        number = bisect_left(starts[word], start)
        if number >= len(places):
            return None
        return places[number] + span[0] - start, places[number] + span[1] - start

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        return sorted([(source[1], goal[1]) for source, goal in self._links])

    @cached_property
    def _source_words(self) -> tuple[list[Span], dict[str, list[int]]]:
        found = _places(self.source)
        return sorted(
            [(at, at + len(word)) for word, places in found.items() for at in places]
        ), found

    @cached_property
    def _target_words(self) -> dict[str, list[int]]:
        return _places(self.target)

    def _best_run(self, span: Span) -> Span | None:
        """Returns the run of target words with the most words linked to the source span minus words
        linked elsewhere, or None. Of equal runs the longest without an open gap is the best, then
        the one linked to the last word."""
        low, high = (
            bisect_right(self._reach, span[0]),
            bisect_left(self._linked, span[1], key=lambda link: link[0][0]),
        )
        linked = {word: source for source, word in self._linked[low:high] if span[0] < source[1]}
        best = run = (0, 0)
        most = weight = 0
        is_open = False
        for word in sorted(linked):
            first, last = bisect_right(self._order, run[1]), bisect_left(self._order, word)
            gap = last - first if weight else 0
            is_open |= 0 < gap <= weight and (
                linked[run[1]] == linked[word] or self._is_open(first, last, span)
            )
            if not weight or gap >= weight + (not is_open):
                run, weight, gap, is_open = (word, word), 0, 0, False
            run, weight = (run[0], word), weight + 1 - gap
            is_last = run[0] == best[0] or linked[word] > linked.get(best[1], span)
            if weight > most or (weight == most and is_last and not is_open):
                best, most, is_open = run, weight, False
        return (self.words[best[0]][0], self.words[best[1]][1]) if linked else None

    def _is_open(self, first: int, last: int, span: Span) -> bool:
        """Returns whether a gap has a word without a link to a neighbour of the source span. The gap
        of "no me ha escrito" for "has not written | me" has none."""
        sources = [self._sources[word] for word in self._order[first:last]]
        return not all(
            any(0 <= span[0] - end < 2 or 0 <= start - span[1] < 2 for start, end in each)
            for each in sources
        )

    def _relative(self, start: int, end: int) -> Span:
        scale = 2 * len(self.target) / max(1, len(self.source))
        low, high = start * scale, end * scale
        inside = self.words[
            bisect_right(self.words, low, key=sum) : bisect_left(self.words, high, key=sum)
        ]
        if not inside and self.words:
            inside = [min(self.words, key=lambda at: abs(2 * sum(at) - low - high))]
        return (inside[0][0], inside[-1][1]) if inside else (0, 0)

    def _project_point(self, position: int) -> int:
        """Returns the end of the target word linked to the last linked word before a position, or
        the same relative position. The start and the end of the source stay there."""
        start, end = self._whole
        if not start < position < end:
            return 0 if position <= start < end else len(self.target)
        if before := bisect_right(self._ends, position, key=lambda end: end[0]):
            last, end = self._ends[before - 1]
            at = self._word_end(end)
            return at + (
                last < position
                and self.target[at : at + 1] == self.source[position - 1] in ".,;:!?"
            )
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
    for word in WORD_OR_SYMBOL.finditer(text):
        if word[0][0].isalnum() or word[0][0] == "_":
            found.setdefault(word[0], []).append(word.start())
    return found


def _linked(words: Sequence[Span], links: Sequence[Link]) -> list[tuple[Span, int]]:
    """Returns the sorted pairs of a source span and the number of a linked target word."""
    return sorted(
        (source, word)
        for source, (start, end) in links
        for word in range(
            bisect_right(words, start, key=lambda each: each[1]), bisect_left(words, (end,))
        )
    )
