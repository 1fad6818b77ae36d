"""Finds the elements of XML that hold whole texts, and so separate sentences, among those that format words.

An element beside words of its parent formats words; elements with nothing between them hold texts. A name that is used in both
ways counts as what it is more often. Callers send fragments, and XML that is not well-formed, which parsers refuse.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from server.text.syntax.markup import BLOCK, DOCTYPE, INLINE, markup_tokens
from server.text.tagged import CDATA

PHRASES = frozenset("p h1 h2 h3 h4 h5 h6".split())
BREAKS = frozenset({"br", "lb", "tab", "line-break", "newline"})
WORD = re.compile(r"\w")


Kind = Literal["text", "start", "end", "empty", "cdata", "doctype", "other"]
"""`empty` are elements without content, and `other` comments and processing instructions."""
LINE_END = re.compile(r"&#(?:1[03]|[xX]0*[aAdD]);")


@dataclass(slots=True, eq=False)
class Token:
    """A piece of XML as written. The `partner` of a tag is the other tag of its element. One that `splits` separates
    sentences."""

    kind: Kind
    raw: str
    name: str = ""
    partner: Token | None = field(default=None, repr=False)
    splits: bool = False

    @property
    def local(self) -> str:
        """The name without prefix, in lower case."""
        return self.name.rpartition(":")[2].lower()


def scan_xml(document: str) -> list[Token]:
    """Returns the tokens, which joined together are the document. Takes linear time."""
    tokens: list[Token] = []
    unmatched: list[Token] = []
    open_names: Counter[str] = Counter()
    for part in markup_tokens(document, xml=True):
        if isinstance(part, str):
            tokens.append(Token("text", part))
        elif part.name:
            kind: Kind = "end" if part.closing else "empty" if part.raw.endswith("/>") else "start"
            tokens.append(Token(kind, part.raw, part.name))
        else:
            kind = "cdata" if part.raw.startswith(CDATA) else "doctype" if part.raw.startswith(DOCTYPE) else "other"
            tokens.append(Token(kind, part.raw))
        token = tokens[-1]
        if token.kind == "start":
            unmatched.append(token)
            open_names[token.name] += 1
        elif token.kind == "end" and open_names[token.name]:
            while token.partner is None:
                start = unmatched.pop()
                open_names[start.name] -= 1
                if start.name == token.name:
                    token.partner, start.partner = start, token
    return tokens


@dataclass(slots=True)
class _Element:
    """It has `words` or `signs` of its own, and `full` children that hold words. Beside a `phrase` or an ancestor are words."""

    tags: tuple[Token, Token]
    parent: _Element = field(default=None, repr=False)  # type: ignore[assignment]  # of all but the document
    words: bool = False
    signs: bool = False
    full: int = 0
    phrase: bool = False
    splits: bool = False
    outermost: list[Token] = field(default_factory=list)
    """Of the document: tags, comments and processing instructions that are in no element."""

    @property
    def holds_words(self) -> bool:
        return self.words or self.full > 0

    def add_text(self, token: Token) -> None:
        text = token.raw if token.kind == "cdata" else html.unescape(token.raw)
        self.words = self.words or WORD.search(text) is not None
        self.signs = self.signs or bool(text.strip())
        self.splits = self.splits or LINE_END.search(token.raw) is not None


def mark_outline(
    tokens: Sequence[Token],
    splitting: frozenset[str] = frozenset(),
    non_splitting: frozenset[str] = frozenset(),
    detect: bool = True,
) -> None:
    """Sets `splits` of the tokens that separate sentences: tags whose small name is in `splitting`, those of the outline if
    `detect`, except `non_splitting`, and elements around one that splits."""
    for token in tokens:
        name, breaks = token.name.lower(), detect and token.kind == "empty" and token.local in BREAKS
        token.splits = token.kind in ("cdata", "doctype") or (
            token.partner is None and (name in splitting or (breaks and name not in non_splitting))
        )
    elements = _elements(tokens)
    document = elements[0]
    if not document.words and document.full <= 1:  # nothing stands beside the root
        for token in document.outermost:
            token.splits = True
    if detect:
        _detect(elements, non_splitting)
    for element in reversed(elements[1:]):  # inner elements first
        if element.splits or element.tags[0].splits or element.tags[0].name.lower() in splitting:
            for tag in element.tags:
                tag.splits = True
            element.parent.splits = True


def _elements(tokens: Sequence[Token]) -> list[_Element]:
    elements = [_Element((Token("start", ""), Token("end", "")))]
    current = elements[0]
    for token in tokens:
        if current is elements[0] and token.kind in ("start", "other"):
            current.outermost.append(token)
        current.splits = current.splits or token.splits  # it must not be moved within a sentence
        if token.kind in ("text", "cdata"):
            current.add_text(token)
        elif token.kind == "start" and token.partner is not None:
            current = _Element((token, token.partner), current)
            elements.append(current)
        elif token.kind == "end" and token.partner is not None:
            current.parent.full += current.holds_words
            current = current.parent
    return elements


def _detect(elements: Sequence[_Element], non_splitting: frozenset[str]) -> None:
    votes: Counter[str] = Counter()
    alone: set[str] = set()
    """Names of elements that are the only one with words in their parent."""
    candidates = [one for one in elements[1:] if one.holds_words and one.tags[0].name.lower() not in non_splitting]
    for element in elements[1:]:
        element.phrase = element.parent.phrase or element.parent.words
    for element in candidates:
        tag, parent = element.tags[0], element.parent
        name, local = tag.name, tag.local
        html_phrase = local in INLINE and (parent.signs or parent.phrase or parent.tags[0].local in PHRASES)
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
        name = element.tags[0].name
        element.splits = element.splits or votes[name] > 0 or (votes[name] == 0 and name in alone)
