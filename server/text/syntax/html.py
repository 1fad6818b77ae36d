"""Reads HTML as text with codes, without changing a character of it (WHATWG HTML, 13.2.5 Tokenization).

A library that builds a tree repairs its input, and callers send fragments. This scanner only cuts: tags, comments,
scripts and broken markup are kept as written.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from html.entities import html5
from operator import itemgetter
from typing import NamedTuple

from server.text.languages import primary_subtag
from server.text.syntax import plain
from server.text.tagged import Code, Escape, Tagged, Word

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rb rp rt s small span strike strong "
    "sub sup time tt u".split()
)
"""Elements around words of a sentence; so are those with a number as their name (`<0>...</0>`)."""
RAISED = frozenset({"sup", "sub"})
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

NAME = re.compile(r"<(/?)([a-zA-Z][^\s/>]*|\d+(?=\s*/?>))(>?)")
XML_TAG = re.compile(r"<(/?)([^\W\d][\w:.-]*)(?:[^<>\"']|\"[^<\"]*\"|'[^<']*')*?(>)")
SECTIONS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"))
"""Comments, and in XML sections and processing instructions."""
DOCTYPE = "<!DOCTYPE"
_HIDDEN = r"\"[^\"]*\"|'[^']*'|<!--.*?-->|<\?.*?\?>|<(?!!--|\?)"
DECLARATION = re.compile(
    rf"{DOCTYPE}(?:{_HIDDEN}|\[(?:{_HIDDEN}|[^\]\"'<])*+\]|[^\[>\"'<])*+>",
    re.DOTALL,
)
"""A document type declaration, whose quotes and inner subset may hold a ">"."""
QUOTE_OR_END = re.compile(r"[\"'>]|\{[{%]|<%")
CLOSING = {"{{": "}}", "{%": "%}", "<%": "%>"}
"""Ends of the expressions of templates, which may hold a ">"."""
BROKEN_TAGS = 100
"""Number of tags with unbalanced quotes after which quotes are ignored, so that scanning takes linear time."""


class Tag(NamedTuple):
    """One piece of markup as written. `name` is in lower case and "" for comments and declarations."""

    raw: str
    name: str = ""
    closing: bool = False

    @property
    def opens(self) -> bool:
        """Whether an end tag belongs to this tag."""
        return bool(self.name) and not self.closing and self.name not in VOID and not self.raw.endswith("/>")


def markup_tokens(text: str, xml: bool = False) -> Iterator[str | Tag]:
    """Yields text and markup in order. Joined together they are the input. Takes linear time. In XML (1.0, fifth edition)
    what has no end is text, as is a tag with a "<" in it; names are as written."""
    position, broken = 0, 0
    missing: set[str] = set()
    while (start := text.find("<", position)) >= 0:
        name = ""
        if found := (XML_TAG if xml else NAME).match(text, start):
            name, end = found[2] if xml else found[2].lower(), found.end() if found[3] else -1
            if not found[3] and broken < BROKEN_TAGS:
                end = _tag_end(text, found.end())
            if end < 0:
                broken += 1
                end = text.find(">", start) + 1 or -1
        else:
            end = _section_end(text, start, xml, missing)
        if end == 0:  # a "<" that begins no markup is text, up to the next "<"
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
        if name in OPAQUE and not closing and not xml:
            # The content of a script is not markup: only the script's own end tag ends it.
            close = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, position)
            if content := text[position : close.start() if close else len(text)]:
                yield Tag(content)
            position += len(content)
    if position < len(text):
        yield text[position:]


def _section_end(text: str, start: int, xml: bool, missing: set[str]) -> int:
    """Returns the end of the comment, declaration, instruction or section at a "<"; 0 where none begins, and -1 for one of HTML
    without an end. `missing` are those of XML that have none."""
    for opening, closing in SECTIONS if xml else SECTIONS[:1]:
        if text.startswith(opening, start) and opening not in missing:
            if (end := text.find(closing, start + len(opening))) >= 0 or not xml:
                return end + len(closing) if end >= 0 else len(text)
            missing.add(opening)
    if not xml:
        return (text.find(">", start) + 1 or -1) if text.startswith(("<!", "<?"), start) else 0
    if not text.startswith(DOCTYPE, start) or DOCTYPE in missing:
        return 0
    declaration = DECLARATION.match(text, start)
    missing.update(() if declaration else (DOCTYPE,))
    return declaration.end() if declaration else 0


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
    return Builder().build(list(markup_tokens(document))).tagged("html")


def scan(document: str, source: str = "", ignored: frozenset[str] = frozenset(), kept: tuple[str, ...] = ()) -> Tagged:
    """Returns a document as text with its markup as codes.

    An inline element is a pair around its words; an element that is not translated is one code; any other tag separates
    sentences. The content of the elements `ignored` is not translated, nor that of an element within a text whose `lang`
    is another language than `source`. The words of `kept` are codes too.
    """
    builder = Builder(primary_subtag(source) if source else "", ignored).build(list(markup_tokens(document)))
    return plain.scan(builder.tagged("html"), kept, builder.raw)


def pieces(raw: str) -> Iterator[tuple[str, str]]:
    """Yields text as it is read and as it is written. A reference to a character is one piece, without the letters after it
    where its semicolon is missing (WHATWG HTML, 13.2.5.73)."""
    for part in REFERENCES.split(raw):
        if part[:1] != "&":
            yield part, part
            continue
        end = len(part)
        if part[1:2] != "#" and part[1:] not in html5:
            end = next((size for size in range(min(end, LONGEST_NAME), 1, -1) if part[1:size] in html5), end)
        yield html.unescape(part[:end]), part[:end]
        if end < len(part):
            yield part[end:], part[end:]


class Builder:
    """Collects the text and the codes of a document: of HTML (`build`), or of what a caller adds."""

    def __init__(self, source: str = "", ignored: frozenset[str] = frozenset()) -> None:
        self._source, self._ignored = source, ignored
        self._texts: list[str] = []
        self._length = 0
        self._references: list[tuple[int, int, str]] = []
        """Start and end of each reference to a character in the text, and how it is written."""
        self._codes: list[Code] = []
        self._open: list[tuple[object, int]] = []
        """Key of each pair that is open, and the number of its code."""
        self._keys: dict[object, int] = {}
        self._pairs = 0
        self._inline = 0
        """Codes since the last one that splits."""

    def tagged(self, escape: Escape) -> Tagged:
        return Tagged("".join(self._texts), tuple(self._codes), escape)

    def raw(self, start: int, end: int) -> str:
        """Returns the text [start, end) as it is written in the document."""
        text = "".join(self._texts)
        self._texts = [text]
        written: list[str] = []
        first = bisect_right(self._references, start, key=itemgetter(1))
        for low, high, raw in self._references[first : bisect_left(self._references, end, key=itemgetter(0))]:
            written += text[start:low], raw
            start = high
        return "".join((*written, text[start:end]))

    def text(self, text: str, raw: str) -> None:
        """Adds text that is written as `raw`."""
        self._texts.append(text)
        start = self._length
        self._length += len(text)
        if text != raw:
            self._references.append((start, self._length, raw))

    def code(self, raw: str, splits: bool = False, kind: str = "", equiv: str = "", word: Word = "") -> None:
        """Adds a code that stands alone."""
        start = self._length
        if equiv:
            self._texts.append(equiv)
            self._length += len(equiv)
        self._codes.append(Code(start, self._length, raw, "ph", 0, word, splits, None, (), kind, equiv))
        self._inline = 0 if splits else self._inline + 1

    def start(self, raw: str, kind: str, key: object) -> None:
        """Adds a code that is the start of a pair, if its end is added."""
        self._open.append((key, len(self._codes)))
        self._keys[key] = self._keys.get(key, 0) + 1
        self.code(raw, kind=kind)

    def end(self, raw: str, kind: str, key: object) -> None:
        """Adds the end of the last pair with this key; pairs that began in it have no end."""
        if not self._keys.get(key):
            self.code(raw, splits=self._is_full, kind=kind)
            return
        opened: object = None
        while opened != key:
            opened, number = self._open.pop()
            self._keys[opened] -= 1
        self._pairs += 1
        start = self._codes[number]
        self._codes[number] = start.at(start.start, start.end, self._pairs, "sc")
        self._codes.append(Code(self._length, self._length, raw, "ec", self._pairs, kind=kind))
        self._inline += 1

    def build(self, parts: Sequence[str | Tag]) -> Builder:
        """Adds the tokens of HTML."""
        place = 0
        while place < len(parts):
            part = parts[place]
            after = place + 1
            if isinstance(part, str):
                for text, raw in pieces(part) if "&" in part else ((part, part),):
                    self.text(text, raw)
            elif part.opens and part.name in RAISED and (note := _note(parts, place)):
                after = note
                self.code(_raw(parts[place:after]), splits=self._is_full)
            elif part.opens and self._is_whole(part):
                after = _element_end(parts, place)
                self._add_whole(part.name, _raw(parts[place:after]))
            elif part.name in INLINE or part.name.isdecimal():
                if part.closing:
                    self.end(part.raw, part.name, part.name)
                elif part.opens and not self._is_full:
                    self.start(part.raw, part.name, part.name)
                else:
                    self.code(part.raw, splits=self._is_full, kind=part.name)
            else:
                self.code(part.raw, splits=part.name not in POINTS or self._is_full, kind=part.name)
            place = after
        return self

    @property
    def _is_full(self) -> bool:
        return self._inline >= CODES_LIMIT

    def _is_whole(self, tag: Tag) -> bool:
        """Returns whether an element is one code: it is not translated, or moves as a whole."""
        if tag.name in ATOMS or tag.name in self._ignored:
            return True
        if len(tag.raw.split(None, 1)) == 1:  # without attributes
            return False
        if NO_TRANSLATE.search(tag.raw):
            return True
        language = LANGUAGE.search(tag.raw)
        if tag.name in CONTAINERS or language is None or not language[1]:
            return False
        return primary_subtag(language[1]) != self._source if self._source else tag.name in INLINE

    def _add_whole(self, name: str, raw: str) -> None:
        """Adds an element that is not translated."""
        if self._is_full or name not in ATOMS | INLINE | self._ignored:
            self.code(raw, splits=True, kind=name)
            return
        text = " ".join(html.unescape(TAGS.sub("", RUBY_TEXT.sub("", raw))).split())
        is_word = name not in PICTURES and 0 < len(text) <= LONGEST_NAME
        self.code(raw, kind=name, equiv=text if is_word else "", word="name" if is_word else "")


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
    2 of H<sub>2</sub>O belongs to a word. Returns 0 if the element is none."""
    name, text = parts[start].name, ""  # type: ignore[union-attr]
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
