"""Text and HTML as passages: runs of text to translate, with the markup before and within them.

A block tag ends a passage. An inline tag (a link, emphasis) stays within its passage and follows its words in the
translation (see `server.text.markup.transfer`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from server.text.markup.projection import Link
from server.text.markup.scan import Tag, scan_markup
from server.text.markup.transfer import Mark, project_marks, with_marks

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rb rp rt ruby s small span strike strong "
    "sub sup time tt u".split()
)
"""Elements that stay within a passage, around their words; so do those with a number as their name (`<0>...</0>`)."""
ATOMS = frozenset("code kbd samp var math svg audio video canvas object".split())
"""Elements within a sentence that are moved like a word. Their content is not translated."""
NAMES = INLINE | frozenset("code kbd samp var".split())
"""Those whose content is a word of the sentence, if it is not translated. The text has it in backticks."""
_NAME = re.compile(r"[^`\s](?:[^`\n\r\t]{0,98}[^`\s])?")
POINTS = frozenset({"img", "wbr", ""})
"""Markup within a sentence that has no end tag; "" stands for comments and declarations."""
NO_TRANSLATE = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)
"""Attributes that exclude an element from translation."""
_NOTE = re.compile(r"[\s\d*†‡,–-]*[\d*†‡][\s\d*†‡,–-]*")
"""A raised or lowered number or sign."""
MARKS_LIMIT = 200
"""Largest number of marks in a passage. A further one ends the passage, which bounds the time to place marks."""


@dataclass(slots=True)
class Passage:
    """A run of text, the markup before it, and the marks within it. `escaped` is True for HTML. `names` are elements that
    the text has as words in backticks, by their escaped content."""

    text: str
    before: str = ""
    marks: tuple[Mark, ...] = ()
    escaped: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Positions in the text where a mark begins or ends."""
        return tuple(sorted({position for mark in self.marks for position in mark.span}))

    def translated(self, text: str, links: Sequence[Link] = ()) -> Passage:
        """Returns the passage with its text replaced by a translation. `links` connect words of both (see
        `project_marks`)."""
        marks = project_marks([_apart(mark, self.text) for mark in self.marks], self.text, text, links)
        return Passage(text, self.before, marks, self.escaped, self.names)

    def render(self) -> str:
        """Returns the passage as text or HTML."""
        if not self.escaped:
            return self.before + self.text
        parts = "".join(part for part, _ in with_marks(self.marks, self.text, escape))
        if self.names:
            parts = re.sub("`([^`]+)`", lambda name: self.names.get(name[1], name[0]), parts)
        return self.before + parts


def parse_passages(text: str, format: str) -> tuple[Passage, ...]:
    """Splits a document ("text" or "html") into passages. Their renderings, joined together, are the document."""
    return (Passage(text),) if format == "text" else tuple(_PassageBuilder("`" in text).build(text))


def _with_notes(tokens: Sequence[str | Tag]) -> Iterator[str | Tag]:
    """Yields the tokens. A raised or lowered number at the end of a word becomes one piece of markup, so that the words
    are read without it: house<sup>1</sup>, m<sup>2</sup>. The one in H<sub>2</sub>O belongs to a word."""
    done = 0
    for i, token in enumerate(tokens):
        if i < done:
            continue
        match tokens[i : i + 4]:
            case [
                Tag(raw=start, name="sup" | "sub", opens=True),
                str(note),
                Tag(raw=end, name="sup" | "sub", closing=True),
                *after,
            ] if _NOTE.fullmatch(note) and not (after and isinstance(after[0], str) and after[0][:1].isalnum()):
                yield Tag(start + note + end)
                done = i + 3
            case _:
                yield token


def _apart(mark: Mark, text: str) -> Mark:
    """Returns a mark that keeps its distance to the words of the text: "use <code>x</code> now" has two spaces around
    the element, and a translation of "use  now" one."""
    if mark.closing or mark.opening.startswith("<!"):
        return mark
    at = mark.span[0]
    return replace(mark, spaces=(text[:at][-1:].isspace(), text[at : at + 1].isspace()))


def escape(text: str) -> str:
    """Escapes text for HTML content."""
    return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


@dataclass(slots=True)
class _PassageBuilder:
    """Collects the current passage: its text, the inline tags that are open, and those that are complete."""

    has_backticks: bool
    """Of the document, whose elements are then no names."""
    before: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    length: int = 0
    marks: list[Mark] = field(default_factory=list)
    open_tags: list[tuple[Tag, int, int]] = field(default_factory=list)
    """Each with its place and its order."""
    tag_count: int = 0
    names: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    skipped_element: str = ""
    skip_depth: int = 0

    def build(self, document: str) -> Iterator[Passage]:
        for token in _with_notes(list(scan_markup(document))):
            if self.skipped_element:
                self._skip(token)
            elif isinstance(token, str):
                self._add_text(html.unescape(token))
            elif token.opens and (token.name in ATOMS or NO_TRANSLATE.search(token.raw)):
                if token.name not in ATOMS | INLINE or not self._has_room:
                    yield from self._end_passage()
                self.skipped_element, self.skip_depth, self.skipped = token.name, 1, [token.raw]
            elif (token.name in INLINE or token.name.isdecimal()) and self._has_room:
                self._add_inline_tag(token)
            elif token.name in POINTS and self._has_room:
                self._add_point(token.raw)
            else:
                yield from self._end_passage()
                self.before.append(token.raw)
        if self.skipped:
            self._add_point("".join(self.skipped))
        yield from self._end_passage()

    @property
    def _has_room(self) -> bool:
        return len(self.marks) + len(self.open_tags) < MARKS_LIMIT

    def _add_text(self, text: str) -> None:
        self.text.append(text)
        self.length += len(text)

    def _skip(self, token: str | Tag) -> None:
        """Adds a token to the element that is not translated. The whole element becomes one point."""
        self.skipped.append(token if isinstance(token, str) else token.raw)
        if isinstance(token, Tag) and token.name == self.skipped_element:
            self.skip_depth += 1 if token.opens else -1 if token.closing else 0
        if self.skip_depth == 0:
            raw = "".join(self.skipped)
            name = html.unescape(re.sub("<[^>]*>", "", raw))
            is_name = not self.has_backticks and self.skipped_element in NAMES and _NAME.fullmatch(name)
            if is_name and self.names.setdefault(escape(name), raw) == raw:
                self._add_text(f"`{name}`")
            else:
                self._add_point(raw)
            self.skipped_element, self.skipped = "", []

    def _add_inline_tag(self, tag: Tag) -> None:
        if tag.opens:
            self.open_tags.append((tag, self.length, self._next_order()))
        elif tag.closing and any(opening.name == tag.name for opening, _, _ in self.open_tags):
            while self.open_tags[-1][0].name != tag.name:
                self._add_unclosed()
            opening, start, order = self.open_tags.pop()
            self.marks.append(Mark(opening.raw, tag.raw, (start, self.length), order, self._next_order()))
        else:
            self._add_point(tag.raw)

    def _add_point(self, raw: str) -> None:
        if not self.text and not self.open_tags and not self.marks:
            self.before.append(raw)
            return
        order = self._next_order()
        self.marks.append(Mark(raw, "", (self.length, self.length), order, order))

    def _add_unclosed(self) -> None:
        tag, start, order = self.open_tags.pop()
        self.marks.append(Mark(tag.raw, "", (start, start), order, order))

    def _next_order(self) -> int:
        self.tag_count += 1
        return self.tag_count

    def _end_passage(self) -> Iterator[Passage]:
        """Yields the current passage. Inline tags that are still open become points at their position."""
        while self.open_tags:
            self._add_unclosed()
        if self.text or self.marks or self.before:
            marks = tuple(sorted(self.marks, key=lambda mark: mark.order))
            yield Passage("".join(self.text), "".join(self.before), marks, True, self.names)
        self.before, self.text, self.length, self.marks, self.names = [], [], 0, [], {}
