"""Reads HTML as text with codes, without changing a character of it (WHATWG HTML, 13.2.5 Tokenization).

A library that builds a tree repairs its input, and callers send fragments. This scanner only cuts: tags, comments,
scripts and broken markup are kept as written.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html.entities import html5

from server.text.languages import primary_subtag
from server.text.syntax import plain
from server.text.tagged import Code, Tagged, Word

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rb rp rt s small span strike strong "
    "sub sup time tt u".split()
)
"""Elements around words of a sentence; so are those with a number as their name (`<0>...</0>`)."""
PICTURES = frozenset("svg audio video canvas object".split())
ATOMS = frozenset("code kbd samp var math ruby".split()) | PICTURES
"""Elements within a sentence that are moved as a whole. Their content is not translated."""
POINTS = frozenset({"img", "wbr", ""})
"""Markup within a sentence that has no end tag; "" stands for comments and declarations."""
CONTAINERS = frozenset("html head body main article section div".split())
"""Elements around whole pages, whose language is often wrong."""
NO_TRANSLATE = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)
"""Attributes that exclude an element from translation."""
LANGUAGE = re.compile(r"\slang\s*=\s*[\"']?([\w-]*)", re.IGNORECASE)
NOTE = re.compile(r"\s*(?:\[[\w ]{1,10}\]|\(\w{1,3}\)|[\s\d*†‡,–-]*[\d*†‡][\s\d*†‡,–-]*)\s*")
"""A raised or lowered number, sign or label in brackets."""
NOTE_PARTS = 8
"""Most pieces of text and markup of a note mark."""
TAGS = re.compile(r"<[^>]*>")
RUBY_TEXT = re.compile(r"<(r[tp])\b[^>]*>[^<]*(?:</\1\s*>)?", re.IGNORECASE)
REFERENCES = re.compile(r"(&#\d+;?|&#[xX][0-9a-fA-F]+;?|&\w+;?)")
LONGEST_NAME = 100
"""Characters of an untranslated element up to which it stands for a word."""
CODES_LIMIT = 200
"""Most codes of a passage. A further one splits it, which bounds the time to place codes."""
OPAQUE = frozenset("script style textarea template noscript iframe pre".split())
"""Elements between sentences whose content is not translated."""
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements that have no end tag."""

NAME = re.compile(r"</?([a-zA-Z][^\s/>]*|\d+(?=\s*/?>))")
QUOTE_OR_END = re.compile(r"[\"'>]|\{[{%]|<%")
CLOSING = {"{{": "}}", "{%": "%}", "<%": "%>"}
"""Ends of the expressions of templates, which may hold a ">"."""
BROKEN_TAGS = 100
"""Number of tags with unbalanced quotes after which quotes are ignored, so that scanning takes linear time."""


@dataclass(frozen=True, slots=True)
class Tag:
    """One piece of markup as written. `name` is in lower case and "" for comments and declarations."""

    raw: str
    name: str = ""
    closing: bool = False

    @property
    def opens(self) -> bool:
        """Whether an end tag belongs to this tag."""
        return bool(self.name) and not self.closing and self.name not in VOID and not self.raw.endswith("/>")


def markup_tokens(text: str) -> Iterator[str | Tag]:
    """Yields text and markup in order. Joined together they are the input. Takes linear time."""
    position, broken = 0, 0
    while (start := text.find("<", position)) >= 0:
        end, name = -1, ""
        if text.startswith("<!--", start):
            end = text.find("-->", start + 4) + 3
            end = len(text) if end < 3 else end
        elif found := NAME.match(text, start):
            name = found[1].lower()
            end = _tag_end(text, found.end()) if broken < BROKEN_TAGS else -1
            if end < 0:
                broken += 1
                end = text.find(">", start) + 1 or -1
        elif text.startswith(("<!", "<?"), start):
            end = text.find(">", start) + 1 or -1
        else:  # a "<" that begins no tag is text, up to the next "<"
            end = text.find("<", start + 1)
            yield text[position : end if end >= 0 else len(text)]
            if end < 0:
                return
            position = end
            continue
        if end < 0:
            break
        if start > position:
            yield text[position:start]
        closing = text.startswith("</", start)
        yield Tag(text[start:end], name, closing)
        position = end
        if name in OPAQUE and not closing:
            # The content of a script is not markup: only the script's own end tag ends it.
            close = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, position)
            if content := text[position : close.start() if close else len(text)]:
                yield Tag(content)
            position += len(content)
    if position < len(text):
        yield text[position:]


def _tag_end(text: str, position: int) -> int:
    """Returns the position after the first ">" outside quotes, or -1. The attributes of the tag begin at `position`."""
    while found := QUOTE_OR_END.search(text, position):
        if found[0] == ">":
            return found.end()
        end = CLOSING.get(found[0], found[0])
        if (close := text.find(end, found.end())) < 0:
            return -1
        position = close + len(end)
    return -1


def parse(document: str) -> Tagged:
    """Returns a document as text with its markup as codes, and no others."""
    return _Builder("", frozenset()).build(list(markup_tokens(document)))


def scan(document: str, source: str = "", ignored: frozenset[str] = frozenset(), kept: tuple[str, ...] = ()) -> Tagged:
    """Returns a document as text with its markup as codes.

    An inline element is a pair around its words; an element that is not translated is one code; any other tag separates
    sentences. The content of the elements `ignored` is not translated, nor that of an element within a text whose `lang`
    is another language than `source`. The words of `kept` are codes too.
    """
    builder = _Builder(primary_subtag(source) if source else "", ignored)
    return plain.scan(builder.build(list(markup_tokens(document))), kept, builder.raw_text)


def pieces(raw: str) -> Iterator[tuple[str, str]]:
    """Yields text as it is read and as it is written. A reference to a character is one piece, without the letters after it
    where its semicolon is missing (WHATWG HTML, 13.2.5.73)."""
    for part in REFERENCES.split(raw) if "&" in raw else (raw,):
        if part[:1] != "&":
            yield part, part
            continue
        end = len(part)
        if part[1:2] != "#" and part[1:] not in html5:
            end = next((size for size in range(min(end, LONGEST_NAME), 1, -1) if part[1:size] in html5), end)
        yield html.unescape(part[:end]), part[:end]
        if end < len(part):
            yield part[end:], part[end:]


class RawText:
    """The text of a document as it is written there, in pieces: a reference to a character is one."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._pieces: list[tuple[str, str]] = []

    def add(self, start: int, text: str, raw: str) -> None:
        """Adds the piece at `start` that is written as `raw`."""
        self._starts.append(start)
        self._pieces.append((text, raw))

    def __call__(self, start: int, end: int) -> str:
        """Returns the text [start, end) as it is written in the document."""
        written: list[str] = []
        number = max(0, bisect_right(self._starts, start) - 1)
        while number < len(self._starts) and (at := self._starts[number]) < end:
            text, raw = self._pieces[number]
            if text == raw:
                written.append(raw[max(start - at, 0) : end - at])
            elif at + len(text) > start:
                written.append(raw)
            number += 1
        return "".join(written)


class _Builder:
    """Collects the text and the codes of a document."""

    def __init__(self, source: str, ignored: frozenset[str]) -> None:
        self._source, self._ignored = source, ignored
        self._texts: list[str] = []
        self.raw_text = RawText()
        self._length = 0
        self._codes: list[Code] = []
        self._open: list[tuple[str, int]] = []
        """Name of each inline element that is open, and the number of its code."""
        self._names: Counter[str] = Counter()
        self._inline = 0
        """Codes since the last one that splits."""

    def build(self, parts: Sequence[str | Tag]) -> Tagged:
        place = 0
        while place < len(parts):
            part = parts[place]
            after = place + 1
            if isinstance(part, str):
                self._add_text(part)
            elif part.opens and (note := _note(parts, place)):
                after = note
                self._add(_raw(parts[place:after]), splits=not self._has_room)
            elif part.opens and self._is_whole(part):
                after = _element_end(parts, place)
                self._add_whole(part.name, _raw(parts[place:after]))
            elif part.name in INLINE or part.name.isdecimal():
                self._add_inline(part)
            else:
                splits = part.name not in POINTS or not self._has_room
                self._add(part.raw, splits=splits, kind=part.name)
            place = after
        return Tagged("".join(self._texts), tuple(self._codes), "html")

    @property
    def _has_room(self) -> bool:
        return self._inline < CODES_LIMIT

    def _is_whole(self, tag: Tag) -> bool:
        """Returns whether an element is one code: it is not translated, or moves as a whole."""
        if tag.name in ATOMS or tag.name in self._ignored or NO_TRANSLATE.search(tag.raw):
            return True
        if tag.name in CONTAINERS:
            return False
        language = LANGUAGE.search(tag.raw)
        if language is None or not language[1]:
            return False
        return primary_subtag(language[1]) != self._source if self._source else tag.name in INLINE

    def _add(self, raw: str, splits: bool = False, kind: str = "", equiv: str = "", word: Word = "") -> None:
        start = self._length
        if equiv:
            self._texts.append(equiv)
            self._length += len(equiv)
        self._codes.append(Code(start, self._length, raw, word=word, splits=splits, kind=kind, equiv=equiv))
        self._inline = 0 if splits else self._inline + 1

    def _add_text(self, raw: str) -> None:
        for text, part in pieces(raw):
            self._texts.append(text)
            self.raw_text.add(self._length, text, part)
            self._length += len(text)

    def _add_whole(self, name: str, raw: str) -> None:
        """Adds an element that is not translated."""
        if not self._has_room or name not in ATOMS | INLINE | self._ignored:
            self._add(raw, splits=True, kind=name)
            return
        text = " ".join(html.unescape(TAGS.sub("", RUBY_TEXT.sub("", raw))).split())
        is_word = name not in PICTURES and 0 < len(text) <= LONGEST_NAME
        self._add(raw, kind=name, equiv=text if is_word else "", word="name" if is_word else "")

    def _add_inline(self, tag: Tag) -> None:
        number = len(self._codes)
        if tag.closing and self._names[tag.name]:
            while (opened := self._open.pop())[0] != tag.name:
                self._names[opened[0]] -= 1
            self._names[tag.name] -= 1
            self._codes[opened[1]] = replace(self._codes[opened[1]], role="sc", pair=number)
            self._codes.append(Code(self._length, self._length, tag.raw, "ec", number, kind=tag.name))
            self._inline += 1
            return
        if tag.opens and self._has_room:
            self._open.append((tag.name, number))
            self._names[tag.name] += 1
        self._add(tag.raw, splits=not self._has_room, kind=tag.name)


def _raw(parts: Sequence[str | Tag]) -> str:
    return "".join([part if isinstance(part, str) else part.raw for part in parts])


def _element_end(parts: Sequence[str | Tag], start: int) -> int:
    """Returns the number of the part after an element, or after the last part if its end is missing."""
    depth, name = 0, parts[start].name  # type: ignore[union-attr]
    for place in range(start, len(parts)):
        part = parts[place]
        if isinstance(part, Tag) and part.name == name:
            depth += 1 if part.opens else -1 if part.closing else 0
            if depth == 0:
                return place + 1
    return len(parts)


def _note(parts: Sequence[str | Tag], start: int) -> int:
    """Returns the number of the part after a raised or lowered note mark, which may be a link: house<sup>1</sup>. The
    2 of H<sub>2</sub>O belongs to a word. Returns 0 where none begins."""
    name, text = parts[start].name, ""  # type: ignore[union-attr]
    if name not in ("sup", "sub"):
        return 0
    for place in range(start + 1, min(start + NOTE_PARTS, len(parts))):
        part = parts[place]
        if isinstance(part, str):
            text += part
        elif part.name == name and part.closing:
            after = parts[place + 1] if place + 1 < len(parts) else ""
            joined = isinstance(after, str) and after[:1].isalnum()
            return place + 1 if NOTE.fullmatch(text) and not joined else 0
        elif part.name not in INLINE:
            return 0
    return 0
