"""Inserts the codes of a sentence into its translation, each once and with nested pairs.

A code with a stand-in replaces what the model wrote for it. Every other code is placed by the words
around it (`server.text.projection`), or at the same relative position.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from server.text.exact_tokens import exact_tokens, places
from server.text.projection import Link, SpanProjection
from server.text.reading import APOSTROPHE, SYMBOL, Reading, StandIn
from server.text.spans import WORD, OffsetMap, Span, edited
from server.text.tagged import AND, INLINE, RAISED, Code, Place, Tagged

_MERGED_WORDS = re.compile(r"(?:[^\W\d_]\0(?![²³¹\u2070-\u209c])|\d\0)[^\W_]|\d[.,'’]?\0[.,'’]?\d")
"""Two words or numbers at a \\0. The number of a note belongs to its word."""
_JOINED = frozenset("_^/\\*>)]}")
_CLOSING = frozenset(".,;:!?…)]}»”’%")
_STYLES = INLINE - {"a", "span"}
"""Elements of which one may contain its neighbour, if both have the same word."""


class Finished(NamedTuple):
    """A translation: the text that a reader sees, and the sorted places of the codes of the `source`.
    `restored` says that the model dropped a stand-in."""

    source: Tagged
    text: str
    places: tuple[Place, ...] = ()
    restored: bool = False

    @property
    def tagged(self) -> Tagged:
        return self.source.placed(self.text, self.places)

    def respelled(self, text: str) -> Finished:
        """Returns the translation with another spelling of its text. Places after its end move there."""
        size = len(text)
        places = [(number, min(start, size), min(end, size)) for number, start, end in self.places]
        return Finished(self.source, text, tuple(places), self.restored)

    def edited(self, edits: Sequence[tuple[int, int, str]]) -> Finished:
        text, runs = edited(self.text, edits)
        move = OffsetMap(runs).span
        places = [(number, *move((start, end))) for number, start, end in self.places]
        return Finished(self.source, text, tuple(places), self.restored)


def unchanged(sentence: Tagged) -> Finished:
    """Returns the copy of a sentence."""
    codes = enumerate(sentence.codes)
    places = tuple([(number, *code[:2]) for number, code in codes if code.kind != APOSTROPHE])
    return Finished(sentence, sentence.text, places)


class _Element(NamedTuple):
    """A code, or a pair with its end code `closing` (-1 for none), at `span` of what the model read.
    An element is within another if its `order` and `end` are between those of the other."""

    number: int
    closing: int
    span: Span
    order: int
    end: int


SURPLUS = -1
"""Number of an event that removes text and writes no code."""


class _Event(NamedTuple):
    """The position in the model's translation where a code is written, in place of `stand_in`
    characters."""

    at: int
    number: int
    stand_in: int = 0


def finish(
    sentence: Tagged,
    reading: Reading,
    target: str,
    links: Sequence[Link],
    write: Callable[[str], str] = str,
    conjunction: str = "and",
) -> Finished:
    """Returns a translation with all codes of the sentence. `target` is the translation of `reading`,
    `links` connect their words, `write` spells its text, and `conjunction` is its word for "&"."""
    is_same = target == reading.text and not reading.capitals
    if is_same and all(
        code.equiv == sentence.text[code.start : code.end] for code in sentence.codes
    ):
        return unchanged(sentence)
    kept, surplus = _occurrences(reading, target, links)
    present = {item.number: span for item, span in kept}
    signs = [number for number, span in enumerate(reading.places) if span[1] > span[0]]
    signs = [number for number in signs if sentence.codes[number].kind == AND]
    ways = (conjunction, conjunction.replace("y", "e")) if signs else ()
    words = [word.span() for word in WORD.finditer(target) if word[0] in ways]
    present |= zip(signs, words, strict=False)
    taken = [*surplus, *present.values()]
    known = [link for link in links if not _touches(link[1], taken)]
    known += [(reading.places[number], span) for number, span in present.items()]
    projection = SpanProjection(reading.text, target, known, _whole(reading, target))
    elements, order = _elements(sentence, reading, present), list[_Event]()
    _place(elements, sentence.codes, projection, (0, len(target)), order)
    ends = [_Event(0, -1), *order, _Event(-1, -1)]
    for before, event, after in zip(ends, order, ends[2:], strict=False) if reading.apart else ():
        if event.number not in reading.apart:
            continue
        code, at = sentence.codes[event.number], event.at
        if code.role == "sc":  # of an element with words
            follows = (
                before.at == at - 1
                or target[at - 2 : at - 1] == sentence.text[code.start - 1 : code.start]
            )
            at = at - 1 if follows and at < after.at else -1
        if at >= 0 and target[at : at + 1] == " ":
            insort(surplus, (at, at + 1))
    replaced = [(span, number) for number, span in present.items()]
    replaced += [(span, SURPLUS) for span in surplus]
    writer = _Writer(sentence, reading, separate=reading.text != target)
    done = 0
    for event in _merged(order, sorted(replaced)):
        writer.text(target[done : event.at], write)
        done = max(done, event.at + event.stand_in)
        if event.number == SURPLUS:
            continue
        writer.code(event)
        if event.stand_in and writer.drops_genitive(event, target, done):
            done += 1
    writer.text(target[done:], write)
    return Finished(sentence, *writer.result(), restored=len(kept) < len(reading.stand_ins))


def _whole(reading: Reading, target: str) -> list[Span]:
    """Returns where a translation has the exact tokens of the text without codes in them."""
    text, cuts = reading.text, [place for span in reading.places for place in span]
    tokens = exact_tokens(text)
    kept = {
        text[start:end] for start, end, *_ in tokens if not any(start < cut < end for cut in cuts)
    }
    return sorted([(at, at + len(token)) for token in kept for at in places(target, token)])


def _occurrences(
    reading: Reading, target: str, links: Sequence[Link]
) -> tuple[list[tuple[StandIn, Span]], list[Span]]:
    """Returns the stand-ins of a translation with their places, and the places of surplus stand-ins
    and symbols. Linked stand-ins are preferred, then earlier ones."""
    if not reading.stand_ins:
        return [], _symbols(target, reading)
    matches = list(reading.pattern().finditer(target))
    kept: list[tuple[StandIn, Span]] = []
    for word in dict.fromkeys([item.word for item in reading.stand_ins]):
        items = [item for item in reading.stand_ins if item.word == word]
        spans = [item.span for item in items]
        places = [match.span() for match in matches if match[0] == word]
        if len(places) > len(items):
            places.sort(key=lambda place: (not _linked(links, spans, place), place))
            del places[len(items) :]
        kept += zip(items, sorted(places), strict=False)
    taken = {span for _, span in kept}
    surplus = [match.span() for match in matches if match.span() not in taken]
    removed = [_with_space(target, span) for span in surplus]
    return kept, sorted({*removed, *_symbols(target, reading)})


def _symbols(target: str, reading: Reading) -> list[Span]:
    return [
        _with_space(target, match.span())
        for match in SYMBOL.finditer(target)
        if match[0] not in reading.text
    ]


def _touches(span: Span, places: Sequence[Span]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in places)


def _linked(links: Sequence[Link], spans: Sequence[Span], place: Span) -> bool:
    return any(_touches(goal, [place]) and _touches(source, spans) for source, goal in links)


def _with_space(text: str, span: Span) -> Span:
    start, end = span
    if text[start - 1 : start] == " ":
        return start - 1, end
    return start, end + (1 if start == 0 and text[end : end + 1] == " " else 0)


def _elements(sentence: Tagged, reading: Reading, present: dict[int, Span]) -> list[_Element]:
    """Returns the codes that are placed by the words around them, in order. A pair that continues in
    another sentence reaches to the edge of this one."""
    codes, size = sentence.codes, len(sentence.codes)
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number, code in enumerate(codes):
        if code.role == "sc":
            starts[code.pair] = number
        elif code.role == "ec" and code.pair in starts:
            ends[starts[code.pair]] = number
    closed = set(ends.values())
    elements: list[_Element] = []
    for number, code in enumerate(codes):
        at = reading.places[number]
        if number in present or number in closed or code.kind == APOSTROPHE:
            continue
        closing, order, last = ends.get(number, -1), number, number
        if code.role == "sc":
            end = len(reading.text) if closing < 0 else reading.places[closing][0]
            span = at[0], max(at[0], end)
            last = 2 * size - number if closing < 0 else closing
        elif code.role == "ec":
            span, order = (0, at[0]), -number - 1
        else:
            span = _point(sentence, code, at, reading)
        elements.append(_Element(number, closing, span, order, last))
    return sorted(elements, key=lambda element: element.order)


def _point(sentence: Tagged, code: Code, at: Span, reading: Reading) -> Span:
    """Returns the span that places a code without words: the word after it if it touches only this,
    otherwise an empty one."""
    before, after = sentence.text[: code.start][-1:], sentence.text[code.end : code.end + 1]
    is_joined = after.isalnum() and (
        before.isspace() or (code.end > code.start > 0 and not before.isalnum())
    )
    word = WORD.match(reading.text, at[0]) if is_joined else None
    return at[0], word.end() if word else at[0]


def _place(
    elements: Sequence[_Element],
    codes: Sequence[Code],
    projection: SpanProjection,
    within: Span,
    events: list[_Event],
) -> None:
    """Appends the events of elements, projected into a part of the translation. Ends of pairs from an
    earlier sentence come before starts of pairs that continue in a later one."""
    done, end = within
    placed = [
        (item, codes[item.number].role, _projected(item, codes[item.number], projection), inner)
        for item, inner in _outermost(elements)
    ]
    low = max([span[1] for _, role, span, _ in placed if role == "ec"], default=done)
    starts = [span[0] for item, role, span, _ in placed if role == "sc" and item.closing < 0]
    high = max(low, min(starts, default=end))
    for place, (item, role, span, inner) in enumerate(placed):
        limit = low if role == "ec" else high
        first, last = max(low, min(span[0], limit)), max(low, min(span[1], limit))
        if item.closing < 0 and role == "sc":
            last = end
        placed[place] = item, role, (first, last), inner
    placed.sort(key=lambda part: (part[2][0], part[0].order))
    for place in range(len(placed) - 1, 0, -1):
        (item, role, span, inner), (other, _, part, deeper) = placed[place - 1 : place + 1]
        is_same = (
            span[0] == part[0] < part[1] <= span[1]
            and {codes[each.number].kind for each in (item, other)} <= _STYLES
        )
        is_next = other.closing > other.number == item.closing + 1
        if is_same and is_next and not projection.source[item.span[1] : other.span[0]].strip():
            placed[place - 1 : place + 1] = [(item, role, span, [*inner, other, *deeper])]
    for place, (item, role, span, inner) in enumerate(placed):
        low, first = done, max(done, min(span[0], end))
        done = first if role == "ph" else max(first, min(span[1], end))
        start, last = placed[place + 1][2] if place + 1 < len(placed) else (end, end)
        if first < start < min(done, last):  # the next element keeps its words
            done = max(first, len(projection.target[:start].rstrip()))
        if role == "ec":
            _place(inner, codes, projection, (low, first), events)
            events.append(_Event(first, item.number))
            continue
        events.append(_Event(first, item.number))
        if inner:
            _place(inner, codes, projection, (first, done), events)
        if item.closing >= 0:
            events.append(_Event(done, item.closing))


def _outermost(elements: Sequence[_Element]) -> Iterator[tuple[_Element, list[_Element]]]:
    inner: list[_Element] = []
    last: _Element | None = None
    for element in elements:
        if last is not None and element.order < last.end:
            inner.append(element)
            continue
        if last is not None:
            yield last, inner
        last, inner = element, []
    if last is not None:
        yield last, inner


def _projected(element: _Element, code: Code, projection: SpanProjection) -> Span:
    """Returns the span of an element in the translation. A raised or numeric part of a word that the
    translation lacks (1<sup>st</sup>) becomes empty."""
    if found := projection.within_word(element.span):
        return found
    span, start = projection.project(element.span), element.span[0]
    around = projection.source[max(0, start - 1) : min(start + 1, element.span[1])]
    is_part = code.kind in RAISED or projection.source[slice(*element.span)].isdecimal()
    if is_part and len(around) == 2 and around.isalnum():
        return span[1], span[1]
    return span


def _merged(events: Sequence[_Event], stand_ins: Sequence[tuple[Span, int]]) -> Iterator[_Event]:
    waiting = [_Event(start, number, end - start) for (start, end), number in stand_ins][::-1]
    done = 0
    for event in events:
        while waiting and waiting[-1].at < max(event.at, done):
            done = max(done, waiting[-1].at + waiting[-1].stand_in)
            yield waiting.pop()
        done = max(done, event.at)
        yield event
    yield from waiting[::-1]


def _space_at(text: str, position: int) -> str:
    character = text[position : position + 1] if position >= 0 else ""
    return (" " if character in "\t\n\r" else character) if character.isspace() else ""


class _Writer:
    """Collects a translation and the places of its codes. With `separate`, words that would merge are
    separated by spaces."""

    def __init__(self, sentence: Tagged, reading: Reading, separate: bool) -> None:
        self._sentence, self._reading, self._separate = sentence, reading, separate
        self._parts: list[str] = []
        self._places: list[Place] = []
        self._length = 0
        self._tail = ""
        self._last: Literal["text", "code", "word"] = "text"
        self._space = ""
        """The white space after an inserted code in the source."""
        self._joined = ""
        """The sign after a stand-in, which has no space before it."""

    def text(self, part: str, write: Callable[[str], str]) -> None:
        if not part:
            return
        if self._joined and part.startswith(f" {self._joined}"):
            part = part[1:]
        if self._last != "text":
            self._separated(part, self._last == "word" and part[0].isalnum())
        self._last, self._space = "text", ""
        self._put(write(part).replace("'", self._reading.apostrophe or "'"))

    def code(self, event: _Event) -> None:
        """Adds a code. One that the model did not write has the spaces around it of the source."""
        code, source = self._sentence.codes[event.number], self._sentence.text
        shown = code.equiv
        inserted = not event.stand_in and code.role == "ph" and bool(shown or code.kind)
        if inserted and self._length and not self._tail[-1:].isspace():
            self._put(_space_at(source, code.start - 1))
        sign = source[code.start - 1 : code.start]
        is_free = self._last == "text" and (not self._places or self._places[-1][2] < self._length)
        if event.stand_in and is_free and self._tail == f"{sign} " and not sign.isalnum():
            self._parts[-1] = self._parts[-1][:-1]
            self._length, self._tail = self._length - 1, sign
        sign = source[code.end : code.end + 1]
        self._joined = sign if event.stand_in and sign in _JOINED else ""
        if shown:
            self._separated(shown)
        start = self._length
        self._put(shown)
        self._places.append((event.number, start, self._length))
        if code.role == "ph":
            self._last = (
                "word" if inserted and code.word else "code" if shown or inserted else self._last
            )
            self._space = _space_at(source, code.end) if inserted else ""
        elif code.role == "ec" and not source[: code.start].strip() and shown:
            self._last, self._space = "code", _space_at(source, code.end)

    def _separated(self, part: str, is_joined: bool = False) -> None:
        if part[0].isspace() or self._tail[-1:].isspace() or not self._length:
            return
        merges = self._separate and _MERGED_WORDS.search(f"{self._tail}\0{part[:2]}")
        if self._space and part[0] not in _CLOSING:
            self._put(self._space)
        elif is_joined or merges:
            self._put(" ")

    def drops_genitive(self, event: _Event, target: str, at: int) -> bool:
        """Returns whether the s after a stand-in is a genitive's, and not the whole translation."""
        shown, word = self._sentence.codes[event.number].equiv, WORD.match(target, at)
        if word is None or word[0] != "s" or not target[at - 1 : at].isalpha():
            return False
        return shown[-1:].isalnum() and self._reading.without_stand_ins(target).strip() != "s"

    def result(self) -> tuple[str, tuple[Place, ...]]:
        return "".join(self._parts), tuple(self._places)

    def _put(self, part: str) -> None:
        self._parts.append(part)
        self._length += len(part)
        self._tail = (self._tail + part)[-2:]
