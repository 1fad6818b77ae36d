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

from model.tokenizer import Tokenizer
from server.text.languages import is_translatable
from server.text.markup.projection import SYMBOL
from server.text.markup.transfer import Mark
from server.text.offsets import OffsetMap, Run, edited
from server.text.protection.find import ProtectedSpan, partners_of
from server.text.protection.glossary import TermMatch
from server.text.protection.stand_ins import stand_in_pattern, stand_ins_of
from server.text.segmentation import Span

WORDS = frozenset({"word", "number", "icu"})
"""Roles of spans that stand for a word of the sentence."""
LINE_ENDS = re.compile(r"[\t-\r\x85]")
CAPITALS = re.compile(r"\w*[^\W\d_]{2}\w*")
_WORDS_AT_END = re.compile(r"[\w-]*$")
_WORDS_AT_START = re.compile(r"[\w-]*")
_UNIT_AT_START = re.compile(r"(?:[dhmsxkKMG]|[kKMGT]i?B|px|ms|min|[kcm]m|kg)(?!\w)")


@dataclass(frozen=True, slots=True)
class StandIn:
    """A word of the masked text that stands for `original`, at `span` of the masked text."""

    word: str
    original: str
    span: Span


@dataclass(frozen=True, slots=True)
class Masked:
    """The text `read` that a model reads instead of a text, in sentence case if `capitals`, and what is restored in its
    translation. `read` is empty where nothing is left to translate."""

    read: str = ""
    capitals: bool = False
    marks: tuple[Mark, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    runs: tuple[Run, ...] = ()
    """Parts that both texts share: from the text to `read`."""
    taken_out: frozenset[str] = frozenset()
    """Openings of the marks that stand for words."""
    apostrophe: str = ""
    """How the text writes an apostrophe, if not as the model does."""

    def without_stand_ins(self, text: str) -> str:
        """Returns the masked text, or its translation, without the stand-ins: the words that are translated."""
        return self.pattern().sub(" ", text) if self.stand_ins else text

    def with_originals(self, target: str) -> str:
        """Returns the beginning of a translation with the spans instead of their stand-ins."""
        for item in self.stand_ins:
            target = target.replace(item.word, item.original)
        return target

    def pattern(self) -> re.Pattern[str]:
        """A pattern that finds the stand-ins."""
        return stand_in_pattern(frozenset([item.word for item in self.stand_ins]))

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
        return Counter(self.pattern().findall(target))


def mask_sentence(
    text: str, spans: Sequence[ProtectedSpan], terms: Sequence[TermMatch], tokenizer: Tokenizer, language: str
) -> tuple[Masked, Sequence[ProtectedSpan]]:
    """Returns the sentence as a model with this vocabulary reads it, and the spans that are masked: as given, or with the
    letters that are joined to them."""
    stand_ins = stand_ins_of(tokenizer) if spans else None
    spans = _widened(text, spans, symbols=bool(stand_ins.symbols)) if stand_ins else spans
    masked = mask(text, spans)
    plain = masked.read
    if terms:
        places = OffsetMap(masked.runs or ((0, 0, len(text)),))
        plain = edited(plain, [(*places.span((term.start, term.end)), " ") for term in terms])[0]
    if not is_translatable(plain, language):
        return Masked(), spans
    capitals = is_all_caps(masked.read)
    read = text_to_read(text, spans, capitals)
    if stand_ins:
        return mask(read, spans, stand_ins.choose(text, spans), capitals), spans
    return Masked(read, capitals), spans


def mask(
    text: str, spans: Sequence[ProtectedSpan], words: Mapping[str, str] | None = None, capitals: bool = False
) -> Masked:
    """Masks the spans, which are in order and do not overlap. `words` maps spans, as written, to their stand-ins; other
    spans are taken out, with the white space before them, or after them at the beginning of the text."""
    if not spans:
        return Masked(text, capitals)
    reading, partners = _Reading(text), partners_of(spans)
    marks: list[Mark] = []
    stand_ins: list[StandIn] = []
    opened: dict[int, int] = {}
    taken_out: set[str] = set()
    apostrophe = ""
    for number, span in enumerate(spans):
        original, end = text[span.start : span.end], span.end
        partner = partners.get(number)
        word = (words or {}).get(original) if partner is None else None
        if span.role == "apostrophe":
            apostrophe = original
            reading.copy(span.start)
            reading.write("'")
        elif partner is None and word is None:
            kept = len(text[reading.done : span.start].rstrip())
            reading.copy(reading.done + kept)
            while not reading.length and text[end : end + 1].isspace():
                end += 1
            opening = text[reading.done : span.start] + (span.written or original) + text[span.end : end]
            marks.append(Mark(opening, "", (reading.length, reading.length), number, number))
            if span.role in WORDS:
                taken_out.add(opening)
        else:
            reading.copy(span.start)
            start = reading.length
            if word is not None:
                reading.write(word)
                stand_ins.append(StandIn(word, span.written or original, (start, reading.length)))
            elif partner is not None and partner > number:
                opened[number] = len(marks)
                marks.append(Mark(original, "", (start, start), number, number))
            elif partner is not None:
                mark = marks[opened[partner]]
                marks[opened[partner]] = Mark(mark.opening, original, (mark.span[0], start), mark.order, number)
        reading.done = end
    reading.copy(len(text))
    runs = tuple(reading.runs)
    return Masked(
        "".join(reading.parts), capitals, tuple(marks), tuple(stand_ins), runs, frozenset(taken_out), apostrophe
    )


class _Reading:
    """The masked text so far, and how much of the text is `done`."""

    def __init__(self, text: str) -> None:
        self.parts: list[str] = []
        self.runs: list[Run] = []
        self.done = self.length = 0
        self._text = text

    def copy(self, end: int) -> None:
        """Copies the text up to a position."""
        if end > self.done:
            self.runs.append((self.done, self.length, end - self.done))
            self.write(self._text[self.done : end])
            self.done = end

    def write(self, part: str) -> None:
        self.parts.append(part)
        self.length += len(part)


def _widened(text: str, spans: Sequence[ProtectedSpan], symbols: bool) -> list[ProtectedSpan]:
    """Returns the spans with the letters that are joined to words among them: a name stands for `{count}px` as a whole,
    since "Tompx" is not copied. An s after a span stays, but in {m}m {s}s. `symbols` stand for the span and a unit."""
    result: list[ProtectedSpan] = []
    for i, span in enumerate(spans):
        start, end = span.start, span.end
        if span.role in WORDS and not span.written:
            low = spans[i - 1].end if i else 0
            high = spans[i + 1].start if i + 1 < len(spans) else len(text)
            found = None if symbols else _WORDS_AT_END.search(text, max(low, result[-1].end if result else 0), start)
            start = found.start() if found else start
            after = (_UNIT_AT_START if symbols else _WORDS_AT_START).match(text, end, high)
            is_plural = after is not None and after[0] == "s" and not (result and result[-1].end > spans[i - 1].end)
            end = after.end() if after and not is_plural else end
        result.append(span if (start, end) == (span.start, span.end) else span._replace(start=start, end=end))
    return result


def is_all_caps(text: str) -> bool:
    """Returns whether a text is a phrase in capitals, as opposed to one or two abbreviations."""
    return text.isupper() and len(CAPITALS.findall(text)) >= 2 and sum(map(len, CAPITALS.findall(text))) >= 6


def text_to_read(text: str, spans: Sequence[ProtectedSpan], capitals: bool) -> str:
    """Returns a text without line ends, and if `capitals` with only the first letter, and the English word I, in
    capitals. The spans are not changed."""
    read = re.sub(r"\bi\b", "I", text[:1] + text[1:].lower()) if capitals else text
    read = LINE_ENDS.sub(" ", read if len(read) == len(text) or not spans else text)
    return edited(read, [(span.start, span.end, text[span.start : span.end]) for span in spans])[0] if spans else read
