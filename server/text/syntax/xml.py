"""Reads XML as text with codes, without changing a character of it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.entities import html5
from itertools import pairwise

from server.text.syntax import plain
from server.text.syntax.html import Builder
from server.text.syntax.markup import Tag, markup_tokens
from server.text.syntax.xml_outline import LINE_END, Token, mark_outline, scan_xml
from server.text.tagged import CDATA, CDATA_END, Tagged

CODE = frozenset({"script", "style"})
NOT_TRANSLATED = re.compile(r"\s(?:[\w.-]+:)?translat(?:e\s*=\s*[\"']no|able\s*=\s*[\"']false)[\"']")
"""Attributes of XHTML and ITS, and of Android."""
REFERENCE = re.compile(r"(&#?[\w.:-]+;)")
ENTITY = re.compile(r"<!ENTITY\s+([\w.:-]+)")


@dataclass(frozen=True, slots=True)
class Rules:
    """What elements mean, by their small names: those `ignored` are not translated, those `splitting` end a sentence, those
    `non_splitting` never do. With `outline`, elements that hold whole texts also end one."""

    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True


def scan(document: str, rules: Rules, kept: tuple[str, ...] = ()) -> Tagged:
    """Returns a document as text with its markup as codes. The words of `kept` are codes too."""
    parts = list(_without_ignored(scan_xml(document), rules))
    mark_outline(parts, rules.splitting, rules.non_splitting, rules.outline)
    builder = _Builder(ENTITY.findall("".join([token.raw for token in parts if token.kind == "doctype"])))
    for token in parts:
        builder.add(token)
    return plain.scan(builder.tagged("xml"), kept, builder.raw)


class _Builder(Builder):
    """Collects the text and the codes of a document, whose own `entities` are no characters."""

    def __init__(self, entities: Sequence[str]) -> None:
        super().__init__()
        self._entities = frozenset(entities)

    def add(self, token: Token) -> None:
        """Adds a token."""
        if token.kind == "text":
            for number, part in enumerate(REFERENCE.split(token.raw)):
                if number % 2 and not self._is_character(part):
                    self.code(part, splits=LINE_END.fullmatch(part) is not None, kind="entity")
                else:
                    self.text(html.unescape(part) if number % 2 else part, part)
        elif token.kind == "cdata":
            self._section(token.raw[len(CDATA) : -len(CDATA_END)])
        elif token.partner is None or token.splits or (token.kind == "start" and self._is_full):
            self.code(token.raw, splits=token.splits or self._is_full, kind=token.local)
        elif token.kind == "start":
            self.start(token.raw, token.local, id(token))
        elif self._keys.get(id(token.partner)):
            self.end(token.raw, token.local, id(token.partner))
        else:
            self.code(token.raw, splits=True, kind=token.local)

    def _is_character(self, reference: str) -> bool:
        if LINE_END.fullmatch(reference):
            return False
        return reference.startswith("&#") or (reference[1:] in html5 and reference[1:-1] not in self._entities)

    def _section(self, content: str) -> None:
        parts = list(markup_tokens(content))
        is_markup = any(isinstance(part, Tag) for part in parts)
        self.code(CDATA, splits=True, kind="cdata of markup" if is_markup else "cdata")
        if is_markup:
            self.build(parts)
        else:
            self.text(content, content)
        self.code(CDATA_END, splits=True, kind="cdata end")


def _without_ignored(tokens: Sequence[Token], rules: Rules) -> Iterator[Token]:
    end, skipped = None, []
    for token, after in pairwise([*tokens, Token("text", "")]):
        if end is None and token.kind == "start" and token.partner is not None:
            ignored = token.name.lower() in rules.ignored or token.local in CODE or NOT_TRANSLATED.search(token.raw)
            end = token.partner if ignored or after is token.partner else None
        if end is None:
            yield token
            continue
        skipped.append(token.raw)
        if token is end:
            yield Token("empty", "".join(skipped), token.name)
            end, skipped = None, []
