"""Splits XML into tokens without changing a character of it, and matches start tags with end tags (XML 1.0, fifth edition).

Callers send fragments with several roots, and sometimes XML that is not well-formed, which parsers refuse.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from server.text.syntax.html import DOCTYPE, markup_tokens
from server.text.tagged import CDATA

Kind = Literal["text", "start", "end", "empty", "cdata", "doctype", "other"]
"""`empty` are elements without content, and `other` comments and processing instructions."""
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
