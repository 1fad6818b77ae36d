"""Masks the protected spans of a sentence before it is translated (`server.text.protection.restore` inserts them again).

A span is replaced by a stand-in that the model copies (`server.text.protection.stand_ins`), or taken out and inserted again after
the words before it. Markup around words is taken out and put around their translation. A sentence in capitals is
translated in sentence case and written in capitals again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from server.text.markup.marks import Mark
from server.text.markup.projection import SYMBOL
from server.text.offsets import Run
from server.text.protection.find import ProtectedSpan
from server.text.protection.stand_ins import stand_in_pattern
from server.text.segmentation import Span

WORDS = frozenset({"word", "number", "icu"})
"""Roles of spans that stand for a word of the sentence."""
CAPITALS = re.compile(r"\w*[^\W\d_]{2}\w*")
_WORDS_AT_END = re.compile(r"[\w-]*$")
_WORDS_AT_START = re.compile(r"[\w-]*")


@dataclass(frozen=True, slots=True)
class StandIn:
    """A word of the masked text that stands for `original`, at `span` of the masked text."""

    word: str
    original: str
    span: Span


@dataclass(frozen=True, slots=True)
class Masked:
    """The text `read` that a model reads instead of a text, and what is restored in its translation."""

    read: str
    marks: tuple[Mark, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    runs: tuple[Run, ...] = ()
    """Parts that both texts share: from the text to `read`."""
    taken_out: frozenset[str] = frozenset()
    """Openings of the marks that stand for words."""

    def without_stand_ins(self, text: str) -> str:
        """Returns the masked text, or its translation, without the stand-ins: the words that are translated."""
        pattern = self.pattern()
        return pattern.sub(" ", text) if pattern else text

    def with_originals(self, target: str) -> str:
        """Returns the beginning of a translation with the spans instead of their stand-ins."""
        for item in self.stand_ins:
            target = target.replace(item.word, item.original)
        return target

    def pattern(self) -> re.Pattern[str] | None:
        """A pattern that finds the stand-ins; None without any."""
        return stand_in_pattern({item.word for item in self.stand_ins}) if self.stand_ins else None

    def missing(self, target: str) -> list[StandIn]:
        """Returns the stand-ins that a translation of `read` lacks, in order."""
        if not self.stand_ins:
            return []
        left = self._counts(target)
        lacking = []
        for item in self.stand_ins:
            left[item.word] -= 1
            if left[item.word] < 0:
                lacking.append(item)
        return lacking

    def is_complete(self, target: str) -> bool:
        """Returns whether a translation of `read` has every stand-in as often as `read`, and no other symbol."""
        if "<" in target and any(found not in self.read for found in SYMBOL.findall(target)):
            return False
        return not self.stand_ins or self._counts(target) == Counter([item.word for item in self.stand_ins])

    def with_messages(self, translated: Mapping[str, str]) -> Masked:
        """Returns the same with the translated arms of ICU messages. `translated` maps messages to their translation."""

        def filled(text: str) -> str:
            for message, translation in translated.items():
                text = text.replace(message, translation)
            return text

        stand_ins = [replace(item, original=filled(item.original)) for item in self.stand_ins]
        marks = [replace(mark, opening=filled(mark.opening)) for mark in self.marks]
        taken_out = frozenset(map(filled, self.taken_out))
        return replace(self, stand_ins=tuple(stand_ins), marks=tuple(marks), taken_out=taken_out)

    def _counts(self, target: str) -> Counter[str]:
        pattern = self.pattern()
        return Counter(pattern.findall(target)) if pattern else Counter()


def mask(text: str, spans: Sequence[ProtectedSpan], words: Mapping[str, str] | None = None) -> Masked:
    """Masks the spans, which are in order and do not overlap. `words` maps spans, as written, to their stand-ins; other
    spans are taken out."""
    if not spans:
        return Masked(text)
    builder = _Builder(text, words or {})
    partners = _partners(spans)
    for number, span in enumerate(spans):
        builder.add(number, span, partners.get(number))
    return builder.finish()


class _Builder:
    """Builds the masked text from left to right."""

    def __init__(self, text: str, words: Mapping[str, str]) -> None:
        self._text, self._words = text, words
        self._parts: list[str] = []
        self._done = self._length = 0
        self._runs: list[Run] = []
        self._marks: list[Mark] = []
        self._stand_ins: list[StandIn] = []
        self._open: dict[int, int] = {}
        self._taken_out: set[str] = set()

    def add(self, number: int, span: ProtectedSpan, partner: int | None) -> None:
        """Masks one span; `partner` is the number of the span that closes or opens it."""
        original = self._text[span.start : span.end]
        if partner is not None:
            self._copy(span.start)
            if partner > number:
                self._open[number] = len(self._marks)
                self._marks.append(Mark(original, "", (self._length, self._length), number, number))
            else:
                mark = self._marks[self._open[partner]]
                self._marks[self._open[partner]] = Mark(
                    mark.opening, original, (mark.span[0], self._length), mark.order, number
                )
            self._done = span.end
        elif word := self._words.get(original):
            self._copy(span.start)
            place = (self._length, self._length + len(word))
            self._stand_ins.append(StandIn(word, span.written or original, place))
            self._write(word)
            self._done = span.end
        else:
            self._take_out(number, span)

    def _take_out(self, number: int, span: ProtectedSpan) -> None:
        """Takes a span out, with the white space before it, or after it at the beginning of the text."""
        before = self._text[self._done : span.start]
        kept = before.rstrip()
        after = self._text[span.end :]
        spaces = len(after) - len(after.lstrip()) if not self._length and not kept else 0
        self._copy(self._done + len(kept))
        written = span.written or self._text[span.start : span.end]
        opening = before[len(kept) :] + written + self._text[span.end : span.end + spaces]
        self._marks.append(Mark(opening, "", (self._length, self._length), number, number))
        if span.role in WORDS:
            self._taken_out.add(opening)
        self._done = span.end + spaces

    def _copy(self, end: int) -> None:
        if end > self._done:
            self._runs.append((self._done, self._length, end - self._done))
            self._write(self._text[self._done : end])
            self._done = end

    def _write(self, part: str) -> None:
        self._parts.append(part)
        self._length += len(part)

    def finish(self) -> Masked:
        self._copy(len(self._text))
        return Masked(
            "".join(self._parts),
            tuple(self._marks),
            tuple(self._stand_ins),
            tuple(self._runs),
            frozenset(self._taken_out),
        )


def widened(text: str, spans: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """Returns the spans with the letters that are joined to words among them: a name stands for `{count}px` as a whole,
    since "Tompx" is not copied. An s after a span stays."""
    result: list[ProtectedSpan] = []
    for i, span in enumerate(spans):
        start, end = span.start, span.end
        if span.role in WORDS and not span.written:
            low = spans[i - 1].end if i else 0
            high = spans[i + 1].start if i + 1 < len(spans) else len(text)
            found = _WORDS_AT_END.search(text, max(low, result[-1].end if result else 0), start)
            start = found.start() if found else start
            after = _WORDS_AT_START.match(text, end, high)
            end = after.end() if after and after[0] != "s" else end
        result.append(replace(span, start=start, end=end))
    return result


def is_all_caps(text: str) -> bool:
    """Returns whether a text is a phrase in capitals, as opposed to one or two abbreviations."""
    return text.isupper() and len(CAPITALS.findall(text)) >= 2 and sum(map(len, CAPITALS.findall(text))) >= 6


def to_sentence_case(text: str) -> str:
    """Returns a phrase in capitals with only the first letter, and the English word I, in capitals."""
    return re.sub(r"\bi\b", "I", text[:1] + text[1:].lower())


def _partners(spans: Sequence[ProtectedSpan]) -> dict[int, int]:
    """Returns for each span that opens or closes another the number of the other."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for number, span in enumerate(spans):
        if span.role == "open":
            opened.append(number)
        elif span.role == "close":
            at = next((at for at in reversed(opened) if spans[at].name == span.name), None)
            if at is not None:
                partners[at], partners[number] = number, at
                del opened[opened.index(at) :]
    return partners
