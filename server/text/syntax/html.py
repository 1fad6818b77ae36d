"""Reads HTML as text with codes. Tags, comments, scripts and broken markup are kept as written."""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from html.entities import html5
from operator import itemgetter

from server.text.languages import primary_subtag
from server.text.spans import WORD
from server.text.syntax import plain
from server.text.syntax.markup import (
    ATOMS,
    BLOCK,
    BREAKS,
    NO_TRANSLATE,
    POINTS,
    REFERENCES,
    VOID,
    Tag,
    markup_tokens,
)
from server.text.syntax.match import Opened
from server.text.tagged import INLINE, PICTURES, RAISED, Code, Escape, Tagged, Word

CONTAINERS = frozenset("html head body main article section div".split())
"""Elements whose `lang` is ignored, as it is often wrong."""
NO_WORDS = INLINE | POINTS | PICTURES | BREAKS | {"note"}
PLACE = re.compile(r"(?<=[\w,;:]\s)(?=[\s.,;:!?)]|\Z)")
"""Position of an element that stands for a word: found in <x/>."""
MENU = re.compile(r"</a\s*>(?:\s*\n\s*)?\Z", re.IGNORECASE)
LANGUAGE = re.compile(r"\slang\s*=\s*[\"']?([\w-]*)", re.IGNORECASE)
NOTE = re.compile(
    r"\s*(?:\[[\w ]{1,10}\]|\(\w{1,3}\)|\w(?:,\s?[\w*†‡])+|[\s\d*†‡,–-]*[\d*†‡][\s\d*†‡,–-]*)\s*"
)
NOTE_PARTS = 8
TAGS = re.compile(r"<[^>]*>")
RUBY_TEXT = re.compile(r"<(r[tp])\b[^>]*>[^<]*(?:</\1\s*>)?", re.IGNORECASE)
LONGEST_NAME = 100
Reader = Callable[[str], Iterator[tuple[str, str]]]
CODES_LIMIT = 200
"""Most codes of a passage, which bound the time to place codes. A further one splits it."""


def parse(document: str) -> Tagged:
    """Returns a document as text with its markup as codes, without codes of plain text."""
    return Builder().build(list(markup_tokens(document))).tagged("html")


def scan(
    document: str,
    source: str = "",
    ignored: frozenset[str] = frozenset(),
    kept: tuple[str, ...] = (),
) -> Tagged:
    """Returns a document as text with codes. Not translated are the elements `ignored`, those within a
    text whose `lang` is not `source`, and the words of `kept`."""
    builder = Builder(primary_subtag(source) if source else "", ignored).build(
        list(markup_tokens(document))
    )
    return plain.scan(builder.tagged("html"), kept, builder.raw)


def pieces(raw: str) -> Iterator[tuple[str, str]]:
    """Yields pieces of text as read and as written. A character reference is one piece. Without a
    semicolon, letters after it may not belong to it (WHATWG HTML, 13.2.5.73)."""
    for part in REFERENCES.split(raw):
        if part[:1] != "&":
            yield part, part
            continue
        end = len(part)
        if part[1:2] != "#" and part[1:] not in html5:
            end = next(
                (size for size in range(min(end, LONGEST_NAME), 1, -1) if part[1:size] in html5),
                end,
            )
        yield html.unescape(part[:end]), part[:end]
        if end < len(part):
            yield part[end:], part[end:]


class Builder:
    """Collects the text and the codes of a document, from HTML (`build`) or call by call."""

    def __init__(
        self, source: str = "", ignored: frozenset[str] = frozenset(), read: Reader = pieces
    ) -> None:
        self._source, self._ignored, self._read = source, ignored, read
        self._texts: list[str] = []
        self._length = 0
        self._references: list[tuple[int, int, str]] = []
        """Start, end and spelling of each reference to a character."""
        self._codes: list[Code] = []
        self._open: Opened[int] = Opened()
        """The numbers of the codes of the pairs that are open."""
        self._pairs = 0
        self._inline = 0
        """Codes since the last one that splits."""

    def tagged(self, escape: Escape) -> Tagged:
        text = "".join(self._texts)
        for number, code in enumerate(self._codes):
            is_free = code.role == "ph" and not code.splits and not code.equiv
            if is_free and code.kind not in NO_WORDS and PLACE.match(text, code.start):
                self._codes[number] = code._replace(word="name")
        return Tagged(text, tuple(self._codes), escape)

    def raw(self, start: int, end: int) -> str:
        """Returns the text [start, end) as it is written in the document."""
        text = "".join(self._texts)
        self._texts = [text]
        written: list[str] = []
        first = bisect_right(self._references, start, key=itemgetter(1))
        for low, high, raw in self._references[
            first : bisect_left(self._references, end, key=itemgetter(0))
        ]:
            written += text[start:low], raw
            start = high
        return "".join((*written, text[start:end]))

    def text(self, text: str, raw: str) -> None:
        self._texts.append(text)
        start = self._length
        self._length += len(text)
        if text != raw:
            self._references.append((start, self._length, raw))

    def code(
        self, raw: str, splits: bool = False, kind: str = "", equiv: str = "", word: Word = ""
    ) -> None:
        """Adds a code that stands alone."""
        start, splits = self._length, splits or self._is_full
        if equiv:
            self._texts.append(equiv)
            self._length += len(equiv)
        self._codes.append(
            Code(start, self._length, raw, "ph", 0, word, splits, None, (), kind, equiv)
        )
        self._inline = 0 if splits else self._inline + 1

    def start(self, raw: str, kind: str, key: object) -> None:
        """Adds a code that is the start of a pair, if its end is added."""
        if not self._is_full:
            self._open.add(key, len(self._codes))
        self.code(raw, kind=kind)

    def end(self, raw: str, kind: str, key: object, splits: bool = False) -> None:
        """Adds the end of the last pair with this key. Pairs that began within it have no end."""
        if (number := self._open.close(key)) is None:
            self.code(raw, splits=splits, kind=kind)
            return
        code = self._codes[number]
        if number + 1 == len(self._codes) and code.start == self._length:  # an icon
            self._codes[number] = code._replace(data=f"{code.data}{raw}")
            return
        self._pairs += 1
        self._codes[number] = Code(*code[:3], "sc", self._pairs, kind=code.kind)
        self._codes.append(Code(self._length, self._length, raw, "ec", self._pairs, kind=kind))
        self._inline += 1

    def build(self, parts: Sequence[str | Tag]) -> Builder:
        place = 0
        while place < len(parts):
            part = parts[place]
            place += 1
            if isinstance(part, str):
                if self._read is pieces and "&" not in part:
                    self.text(part, part)
                    continue
                for text, raw in self._read(part):
                    self.text(text, raw)
                continue
            raw, name, closing, word = part
            opens = part.opens
            before = _raw(parts[max(0, place - 3) : place - 1])[-LONGEST_NAME:]
            is_inline = name in INLINE or name.isdecimal()
            is_own = (len(name) < 3 or not name.isalpha()) and name not in BLOCK | POINTS | VOID
            is_phrase = is_inline or (is_own and WORD.search(TAGS.split(before)[-1]))
            if word:
                self.code(raw, False, name, word, "name")
            elif opens and (name in RAISED or name == "a") and (after := _note(parts, place - 1)):
                raw, place = _raw(parts[place - 1 : after]), after
                self.code(raw, kind="note")
            elif opens and self._is_whole(part):
                after = _element_end(parts, place - 1)
                raw, place = _raw(parts[place - 1 : after]), after
                self._add_whole(name, raw)
            elif closing:
                self.end(raw, name, name, splits=not is_inline)
            elif opens and is_phrase:
                if name == "a" and MENU.search(before):
                    self.code("", splits=True, kind="menu")
                self.start(raw, name, name)
            else:
                self.code(raw, splits=not (is_phrase or name in POINTS), kind=name)
        return self

    @property
    def _is_full(self) -> bool:
        return self._inline >= CODES_LIMIT

    def _is_whole(self, tag: Tag) -> bool:
        """Returns whether an element is one code with its content."""
        if tag.name in ATOMS or tag.name in self._ignored:
            return True
        if len(tag.raw) == len(tag.name) + 2:
            return False
        if NO_TRANSLATE.search(tag.raw):
            return True
        language = LANGUAGE.search(tag.raw)
        if tag.name in CONTAINERS or language is None or not language[1]:
            return False
        return primary_subtag(language[1]) != self._source if self._source else tag.name in INLINE

    def _add_whole(self, name: str, raw: str) -> None:
        if self._is_full or name not in ATOMS | INLINE | self._ignored:
            self.code(raw, splits=True, kind=name)
            return
        self.whole(raw, name)

    def whole(self, raw: str, name: str) -> None:
        text = " ".join(html.unescape(TAGS.sub("", RUBY_TEXT.sub("", raw))).split())
        is_word = name not in PICTURES and 0 < len(text) <= LONGEST_NAME
        self.code(raw, kind=name, equiv=text if is_word else "", word="name" if is_word else "")


def _raw(parts: Sequence[str | Tag]) -> str:
    return "".join([part if isinstance(part, str) else part.raw for part in parts])


def _element_end(parts: Sequence[str | Tag], start: int) -> int:
    depth, name = 0, parts[start].name  # type: ignore[union-attr]
    for place in range(start, len(parts)):
        part = parts[place]
        if isinstance(part, Tag) and part.name == name:
            depth += 1 if part.opens else -1 if part.closing else 0
            if depth == 0:
                return place + 1
    return len(parts)


def _note(parts: Sequence[str | Tag], start: int) -> int:
    """Returns the number of the part after a raised note mark, which may be a link or in one, or 0.
    The 2 of H<sub>2</sub>O is no note mark."""
    within = parts[start : start + NOTE_PARTS]
    within = within[: _element_end(within, 0)]
    first, last, after = within[0], within[-1], parts[start + len(within) : start + len(within) + 1]
    is_closed = (
        isinstance(first, Tag)
        and isinstance(last, Tag)
        and last.closing
        and last.name == first.name
    )
    names = {part.name for part in within if isinstance(part, Tag)}
    joined = bool(after) and isinstance(after[0], str) and after[0][:1].isalnum()
    text = "".join([part for part in within if isinstance(part, str)])
    is_note = (
        is_closed and not joined and names <= INLINE and names & RAISED and NOTE.fullmatch(text)
    )
    return start + len(within) if is_note else 0
