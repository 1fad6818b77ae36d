"""Splits XML into tokens without changing a character of it, and matches start tags with end tags (XML 1.0, fifth edition).

Callers send fragments with several roots, and sometimes XML that is not well-formed, which parsers refuse.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["text", "start", "end", "empty", "cdata", "doctype", "other"]
"""`empty` are elements without content, and `other` comments and processing instructions."""
TAG = re.compile(r"<(/?)([^\W\d][\w:.-]*)(?:[^<>\"']|\"[^<\"]*\"|'[^<']*')*?(/?)>")
SECTIONS: tuple[tuple[str, str, Kind], ...] = (
    ("<!--", "-->", "other"),
    ("<![CDATA[", "]]>", "cdata"),
    ("<?", "?>", "other"),
)
SUBSET = re.compile(r"[\"'\[\]>]|<!--|<\?")
"""Signs that end a document type declaration, begin or end its inner subset, or may hide its end."""
HIDING = {'"': '"', "'": "'", "<!--": "-->", "<?": "?>"}
LINE_END = re.compile(r"&#(?:1[03]|[xX]0*[aAdD]);")


@dataclass(slots=True, eq=False)
class Token:
    """A piece of XML as written. A tag has a `name`, and as its `partner` the other tag of its element, or None if that is
    missing. `splits` says that the token separates sentences (see `server.text.syntax.xml_outline`)."""

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
    tokens = list(_scan(document))
    unmatched: list[Token] = []
    open_names: Counter[str] = Counter()
    for token in tokens:
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


def _scan(document: str) -> Iterator[Token]:
    done = position = 0
    missing: set[str] = set()
    """Beginnings whose end is missing: they are text."""
    while (start := document.find("<", position)) >= 0:
        token = _markup(document, start, missing)
        position = start + len(token.raw)
        if token.kind != "text":
            if start > done:
                yield Token("text", document[done:start])
            yield token
            done = position
    if done < len(document):
        yield Token("text", document[done:])


def _markup(document: str, start: int, missing: set[str]) -> Token:
    """Returns the markup at `start`, or "<" as text."""
    if tag := TAG.match(document, start):
        return Token("end" if tag[1] else "empty" if tag[3] else "start", tag[0], tag[2])
    for opening, closing, kind in SECTIONS:
        if document.startswith(opening, start) and opening not in missing:
            if (end := document.find(closing, start + len(opening))) >= 0:
                return Token(kind, document[start : end + len(closing)])
            missing.add(opening)
    if document.startswith("<!DOCTYPE", start) and "<!DOCTYPE" not in missing:
        if (end := _declaration_end(document, start)) >= 0:
            return Token("doctype", document[start:end])
        missing.add("<!DOCTYPE")
    return Token("text", "<")


def _declaration_end(document: str, position: int) -> int:
    """Returns the end of a document type declaration, or -1."""
    inside = False
    while found := SUBSET.search(document, position):
        position = found.end()
        if closing := HIDING.get(found[0]):
            if (end := document.find(closing, position)) < 0:
                return -1
            position = end + len(closing)
        elif found[0] == ">" and not inside:
            return position
        elif found[0] in "[]":
            inside = found[0] == "["
    return -1
