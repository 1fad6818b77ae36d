"""Text and HTML as passages: what is to be translated, and how to put it back.

HTML goes through a scanner that cuts and never rewrites: tags, comments, scripts and broken markup come out as written.
(Libraries that build a tree repair what they read, and callers send fragments.) Block tags end a passage; inline tags
(links, emphasis) stay with their words: see `server.placement`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from server.text.markup_projection import Link, Mark, place_marks

INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "ins",
        "label",
        "mark",
        "q",
        "rb",
        "rp",
        "rt",
        "ruby",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
    ]
)
ATOMS = frozenset(["code", "kbd", "samp", "var", "math", "svg", "audio", "video", "canvas", "object"])
"""Elements that stand within a sentence like a word and whose inside is left alone."""
OPAQUE = frozenset(["script", "style", "textarea", "template", "noscript", "iframe", "pre"])
"""Elements between sentences whose inside is left alone."""
POINTS = frozenset({"img", "wbr", ""})
"""Markup without an end that stands within a sentence; "" are comments and declarations."""
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)

NAME = re.compile(r"</?([a-zA-Z][^\s/>]*)")
QUOTE_OR_END = re.compile(r"[\"'>]")
NO_TRANSLATE = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)
BROKEN_TAGS = 100
"""After so many tags with unbalanced quotes quotes are no longer looked at, so that scanning stays linear."""
MARKS_LIMIT = 200
"""Inline marks in one passage; a further one ends the passage like a block tag, which bounds the cost of placing
them."""


@dataclass(frozen=True, slots=True)
class Tag:
    """One piece of markup as written. `name` is in lower case, "" for comments and declarations."""

    raw: str
    name: str = ""
    closing: bool = False

    @property
    def opens(self) -> bool:
        """Whether an end tag is to be expected."""
        return bool(self.name) and not self.closing and self.name not in VOID and not self.raw.endswith("/>")


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of text that belongs together, with the markup before and within it."""

    text: str
    before: str = ""
    marks: tuple[Mark, ...] = ()
    escaped: bool = False

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Where in the text markup begins or ends."""
        return tuple(sorted({position for mark in self.marks for position in mark.span}))

    def render(self, translated: str, links: Sequence[Link] = ()) -> str:
        """The passage with its text replaced; `links` say which words of it came from which (see `place`)."""
        if not self.escaped:
            return self.before + translated
        return self.before + place_marks(self.marks, self.text, translated, links, escape)


def parse_passages(text: str, format: str) -> tuple[Passage, ...]:
    """The passages of a document ("text" or "html"), in order; their renderings one after the other are the
    document."""
    return (Passage(text),) if format == "text" else tuple(_Builder().build(text))


def escape(text: str) -> str:
    """Text as HTML writes it between tags."""
    return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


def scan_markup(text: str) -> Iterator[str | Tag]:
    """Text and markup in turn; together they are the input, character for character. Takes linear time."""
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
        else:  # a lone "<" is text, up to the next one
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
        yield Tag(text[start:end], name, text.startswith("</", start))
        position = end
        if name in OPAQUE and not text.startswith("</", start):
            # What is within a script is no markup: nothing but its own end tag ends it.
            close = re.compile(rf"</{name}\b", re.IGNORECASE).search(text, position)
            if inside := text[position : close.start() if close else len(text)]:
                yield Tag(inside)
            position += len(inside)
    if position < len(text):
        yield text[position:]


def _tag_end(text: str, position: int) -> int:
    """The end of a tag whose attributes start at `position`: after the first ">" outside quotes; -1 where there is
    none."""
    while found := QUOTE_OR_END.search(text, position):
        if found[0] == ">":
            return found.end()
        if (close := text.find(found[0], found.end())) < 0:
            return -1
        position = close + 1
    return -1


@dataclass(slots=True)
class _Open:
    tag: Tag
    start: int
    order: int


@dataclass(slots=True)
class _Builder:
    """Collects the passage under way: its text, the inline tags that are open, and those that are complete."""

    before: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    length: int = 0
    marks: list[Mark] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    count: int = 0
    skipped: list[str] = field(default_factory=list)
    skipping: str = ""
    depth: int = 0

    def build(self, document: str) -> Iterator[Passage]:
        for token in scan_markup(document):
            if self.skipping:
                self._skip(token)
            elif isinstance(token, str):
                self._add(html.unescape(token))
            elif token.opens and (token.name in ATOMS or NO_TRANSLATE.search(token.raw)):
                if token.name not in ATOMS | INLINE:
                    yield from self._flush()
                self.skipping, self.depth, self.skipped = token.name, 1, [token.raw]
            elif token.name in INLINE and len(self.marks) + len(self.stack) < MARKS_LIMIT:
                self._inline(token)
            elif token.name in POINTS and len(self.marks) + len(self.stack) < MARKS_LIMIT:
                self._point(token.raw)
            else:
                yield from self._flush()
                self.before.append(token.raw)
        if self.skipped:
            self._point("".join(self.skipped))
        yield from self._flush()

    def _add(self, text: str) -> None:
        self.text.append(text)
        self.length += len(text)

    def _skip(self, token: str | Tag) -> None:
        self.skipped.append(token if isinstance(token, str) else token.raw)
        if isinstance(token, Tag) and token.name == self.skipping:
            self.depth += 1 if token.opens else -1 if token.closing else 0
        if self.depth == 0:
            self._point("".join(self.skipped))
            self.skipping, self.skipped = "", []

    def _inline(self, tag: Tag) -> None:
        if tag.opens:
            self.stack.append(_Open(tag, self.length, self._next()))
        elif tag.closing and any(open.tag.name == tag.name for open in self.stack):
            while (open := self.stack.pop()).tag.name != tag.name:
                self._unclosed(open)
            self.marks.append(Mark(open.tag.raw, tag.raw, (open.start, self.length), open.order, self._next()))
        else:
            self._point(tag.raw)

    def _point(self, raw: str) -> None:
        if not self.text and not self.stack and not self.marks:
            self.before.append(raw)
            return
        order = self._next()
        self.marks.append(Mark(raw, "", (self.length, self.length), order, order))

    def _unclosed(self, open: _Open) -> None:
        self.marks.append(Mark(open.tag.raw, "", (open.start, open.start), open.order, open.order))

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _flush(self) -> Iterator[Passage]:
        """The passage so far. Inline tags that a block tag interrupts stay where they are, each for itself."""
        while self.stack:
            self._unclosed(self.stack.pop())
        if self.text or self.marks or self.before:
            marks = tuple(sorted(self.marks, key=lambda mark: mark.order))
            yield Passage("".join(self.text), "".join(self.before), marks, escaped=True)
        self.before, self.text, self.length, self.marks = [], [], 0, []
