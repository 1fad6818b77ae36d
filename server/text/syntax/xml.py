"""Reads XML as text with codes. XML may be a fragment, and not well-formed.

An element next to words of its parent formats words. Elements with nothing between them contain
whole texts, so they separate sentences. An element name used in both ways is what it is more often.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.entities import html5
from itertools import pairwise

from server.text.syntax import plain
from server.text.syntax.html import Builder
from server.text.syntax.markup import (
    BLOCK,
    BREAKS,
    DOCTYPE,
    NO_TRANSLATE,
    Tag,
    markup_tokens,
)
from server.text.syntax.match import Opened
from server.text.tagged import CDATA, CDATA_END, INLINE, Tagged

CODE = frozenset({"script", "style"})
PHRASES = frozenset("p h1 h2 h3 h4 h5 h6".split())
WORD = re.compile(r"\w")
REFERENCE = re.compile(r"(&#?[\w.:-]+;)")
LINE_END = re.compile(r"&#(?:1[03]|[xX]0*[aAdD]);")
ENTITY = re.compile(r"<!ENTITY\s+([\w.:-]+)")


@dataclass(frozen=True, slots=True)
class Rules:
    """How elements are read, by their names in small letters: `ignored` ones are not translated,
    `splitting` ones end a sentence, `non_splitting` ones never do. With `outline`, elements with
    whole texts end a sentence too."""

    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True


@dataclass(slots=True, eq=False)
class Token:
    """A piece of XML as written. Its `kind` is text, start, end, cdata, doctype, `empty` (an element
    without content), `whole` (an element that is not translated), or other. The `partner` of a tag
    is the other tag of its element. A token that `splits` separates sentences."""

    kind: str
    raw: str
    name: str = ""
    partner: Token | None = field(default=None, repr=False)
    splits: bool = False

    @property
    def local(self) -> str:
        """The name without prefix, in lower case."""
        return self.name.rpartition(":")[2].lower()


def scan(document: str, rules: Rules, kept: tuple[str, ...] = ()) -> Tagged:
    """Returns a document as text with codes. The words of `kept` are not translated."""
    parts = list(_without_ignored(tokens(document), rules))
    mark_outline(parts, rules)
    builder = _Builder(
        ENTITY.findall("".join([token.raw for token in parts if token.kind == "doctype"]))
    )
    for token in parts:
        builder.add(token)
    return plain.scan(builder.tagged("xml"), kept, builder.raw)


def tokens(document: str) -> list[Token]:
    """Returns the tokens, which joined are the document. Takes linear time."""
    found: list[Token] = []
    opened = Opened[Token]()
    for part in markup_tokens(document, xml=True):
        if isinstance(part, str):
            token = Token("text", part)
        elif part.name:
            token = Token(
                "end" if part.closing else "empty" if part.raw.endswith("/>") else "start",
                part.raw,
                part.name,
            )
        else:
            is_section, is_type = part.raw.startswith(CDATA), part.raw.startswith(DOCTYPE)
            token = Token("cdata" if is_section else "doctype" if is_type else "other", part.raw)
        found.append(token)
        if token.kind == "start":
            opened.add(token.name, token)
        elif token.kind == "end" and (start := opened.close(token.name)):
            token.partner, start.partner = start, token
    return found


def _without_ignored(tokens: Sequence[Token], rules: Rules) -> Iterator[Token]:
    end, ignored, skipped = None, False, []
    for token, after in pairwise([*tokens, Token("text", "")]):
        if end is None and token.kind == "start" and token.partner is not None:
            ignored = token.name.lower() in rules.ignored or token.local in CODE
            ignored = ignored or NO_TRANSLATE.search(token.raw) is not None
            end = token.partner if ignored or after is token.partner else None
        if end is None:
            yield token
            continue
        skipped.append(token.raw)
        if token is end:
            yield Token("whole" if ignored else "empty", "".join(skipped), token.name)
            end, skipped = None, []


@dataclass(slots=True)
class _Element:
    """The element of a start tag, or the document. It has `words` or `signs` of its own, and `full`
    children with words. An element is a `phrase` if it or an ancestor is next to words."""

    tag: Token
    parent: _Element = field(default=None, repr=False)  # type: ignore[assignment]  # of all but the document
    words: bool = False
    signs: bool = False
    full: int = 0
    phrase: bool = False
    splits: bool = False

    @property
    def holds_words(self) -> bool:
        return self.words or self.full > 0

    def add_text(self, token: Token) -> None:
        text = token.raw if token.kind == "cdata" else html.unescape(token.raw)
        self.words = self.words or WORD.search(text) is not None
        self.signs = self.signs or bool(text.strip())
        self.splits = self.splits or LINE_END.search(token.raw) is not None


def mark_outline(tokens: Sequence[Token], rules: Rules) -> None:
    """Sets `splits` of the tokens that separate sentences: tags of `splitting` elements, of the
    outline, and of elements around a splitting one."""
    for token in tokens:
        name = token.name.lower()
        breaks = rules.outline and token.kind == "empty" and token.local in BREAKS
        breaks = name in rules.splitting or (breaks and name not in rules.non_splitting)
        token.splits = token.kind in ("cdata", "doctype") or (token.partner is None and breaks)
    document = current = _Element(Token("start", ""))
    elements: list[_Element] = []
    outermost: list[Token] = []
    """Tags, comments and processing instructions that are in no element."""
    for token in tokens:
        if current is document and token.kind in ("start", "other"):
            outermost.append(token)
        current.splits = current.splits or token.splits  # it must not be moved within a sentence
        if token.kind in ("text", "cdata"):
            current.add_text(token)
        elif token.kind == "start" and token.partner is not None:
            current = _Element(token, current)
            elements.append(current)
        elif token.kind == "end" and token.partner is not None:
            current.parent.full += current.holds_words
            current = current.parent
    if not document.words and document.full <= 1:  # nothing stands beside the root
        for token in outermost:
            token.splits = True
    if rules.outline:
        _detect(elements, rules)
    for element in reversed(elements):  # inner elements first
        tag = element.tag
        if tag.partner and (element.splits or tag.splits or tag.name.lower() in rules.splitting):
            tag.splits = tag.partner.splits = element.parent.splits = True


def _detect(elements: Sequence[_Element], rules: Rules) -> None:
    votes: Counter[str] = Counter()
    alone: set[str] = set()
    """Names of elements without siblings that have words."""
    for element in elements:
        element.phrase = element.parent.phrase or element.parent.words
    candidates = [
        each
        for each in elements
        if each.holds_words and each.tag.name.lower() not in rules.non_splitting
    ]
    for element in candidates:
        name, local, parent = element.tag.name, element.tag.local, element.parent
        html_phrase = local in INLINE and (
            parent.signs or parent.phrase or parent.tag.local in PHRASES
        )
        if local in BLOCK:
            element.splits = True
        elif parent.words or html_phrase:
            votes[name] -= 1
        elif parent.full > 1:
            votes[name] += 1
            element.splits = True
        elif not parent.phrase:
            alone.add(name)
    for element in candidates:
        name = element.tag.name
        element.splits = element.splits or votes[name] > 0 or (votes[name] == 0 and name in alone)


class _Builder(Builder):
    """Collects the text and the codes of XML. References to its own `entities` are codes."""

    def __init__(self, entities: Sequence[str]) -> None:
        super().__init__()
        self._entities = frozenset(entities)

    def add(self, token: Token) -> None:
        if token.kind == "text":
            for number, part in enumerate(REFERENCE.split(token.raw)):
                if number % 2 and not self._is_character(part):
                    self.code(part, splits=LINE_END.fullmatch(part) is not None, kind="entity")
                else:
                    self.text(html.unescape(part) if number % 2 else part, part)
        elif token.kind == "cdata":
            self._section(token.raw[len(CDATA) : -len(CDATA_END)])
        elif token.kind == "whole" and not token.splits and token.local not in CODE:
            self.whole(token.raw, token.local)
        elif token.partner is None or token.splits:
            self.code(token.raw, splits=token.splits, kind=token.local)
        elif token.kind == "start":
            self.start(token.raw, token.local, id(token))
        else:
            self.end(token.raw, token.local, id(token.partner), splits=True)

    def _is_character(self, reference: str) -> bool:
        is_number = reference.startswith("&#") and not LINE_END.fullmatch(reference)
        return is_number or (reference[1:] in html5 and reference[1:-1] not in self._entities)

    def _section(self, content: str) -> None:
        parts = list(markup_tokens(content))
        is_markup = any(isinstance(part, Tag) for part in parts)
        self.code(CDATA, splits=True, kind="cdata of markup" if is_markup else "cdata")
        if is_markup:
            self.build(parts)
        else:
            self.text(content, content)
        self.code(CDATA_END, splits=True, kind="cdata end")
