"""Reads XML as text with codes, without changing a character of it: elements around words are pairs, those that hold whole
texts separate sentences (`xml_outline`)."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html.entities import html5
from itertools import pairwise

from server.text.syntax import plain
from server.text.syntax.html import INLINE, OPAQUE, RawText, Tag, markup_tokens, pieces
from server.text.syntax.xml_outline import mark_outline
from server.text.syntax.xml_tokens import LINE_END, Token, scan_xml
from server.text.tagged import CDATA_END, Code, Role, Tagged

CODE = frozenset({"script", "style"})
"""Elements of XHTML and SVG whose content is not translated."""
NOT_TRANSLATED = re.compile(r"\s(?:[\w.-]+:)?translat(?:e\s*=\s*[\"']no|able\s*=\s*[\"']false)[\"']")
"""Attributes that exclude an element from translation: of XHTML and ITS, and of Android."""
REFERENCE = re.compile(r"(&#?[\w.:-]+;)")
ENTITY = re.compile(r"<!ENTITY\s+([\w.:-]+)")


@dataclass(frozen=True, slots=True)
class Rules:
    """What elements mean, by their names in small letters: the content of those `ignored` is not translated; those in
    `splitting` end a sentence and those in `non_splitting` never do. With `outline`, elements that hold whole texts also
    end one."""

    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True


def scan(document: str, rules: Rules, kept: tuple[str, ...] = ()) -> Tagged:
    """Returns a document as text with its markup as codes. The words of `kept` are codes too."""
    parts = list(_without_ignored(scan_xml(document), rules))
    mark_outline(parts, rules.splitting, rules.non_splitting, rules.outline)
    subset = "".join([token.raw for token in parts if token.kind == "doctype"])
    builder = _Builder(frozenset(ENTITY.findall(subset)))
    for token in parts:
        builder.add(token)
    return plain.scan(builder.tagged(), kept, builder.raw_text)


class _Builder:
    """Collects the text and the codes of a document, whose own `entities` are no characters."""

    def __init__(self, entities: frozenset[str]) -> None:
        self._entities = entities
        self._texts: list[str] = []
        self.raw_text = RawText()
        self._length = 0
        self._codes: list[Code] = []
        self._pairs: dict[int, int] = {}

    def tagged(self) -> Tagged:
        return Tagged("".join(self._texts), tuple(self._codes), "xml")

    def add(self, token: Token) -> None:
        """Adds a token."""
        if token.kind == "text":
            for number, part in enumerate(REFERENCE.split(token.raw)):
                if number % 2 and not self._is_character(part):
                    self._code(part, splits=LINE_END.fullmatch(part) is not None, kind="entity")
                else:
                    self._text(html.unescape(part) if number % 2 else part, part)
        elif token.kind == "cdata":
            self._section(token.raw[len("<![CDATA[") : -len(CDATA_END)])
        elif token.partner is not None and not token.splits:
            self._end(token)
        else:
            self._code(token.raw, splits=token.splits, kind=token.local)

    def _is_character(self, reference: str) -> bool:
        """Returns whether a reference is to a character. What only the document defines is moved like a word."""
        if LINE_END.fullmatch(reference):
            return False
        return reference.startswith("&#") or (reference[1:] in html5 and reference[1:-1] not in self._entities)

    def _text(self, text: str, raw: str) -> None:
        self._texts.append(text)
        self.raw_text.add(self._length, text, raw)
        self._length += len(text)

    def _code(self, raw: str, splits: bool = False, kind: str = "") -> None:
        self._codes.append(Code(self._length, self._length, raw, splits=splits, kind=kind))

    def _end(self, token: Token) -> None:
        """Adds the start or the end of a pair."""
        number = self._pairs.pop(id(token.partner), 0) if token.kind == "end" else len(self._codes) + 1
        role: Role = "ec" if token.kind == "end" else "sc"
        if role == "sc":
            self._pairs[id(token)] = number
        code = Code(self._length, self._length, token.raw, role if number else "ph", number, kind=token.local)
        self._codes.append(code)

    def _section(self, content: str) -> None:
        """Adds a CDATA section, whose text may be HTML. Markup that could hide its end separates sentences."""
        parts = list(markup_tokens(content))
        is_markup = any(isinstance(part, Tag) for part in parts)
        self._code("<![CDATA[", splits=True, kind="cdata of markup" if is_markup else "cdata")
        unclosed = Counter[str]()
        for part in parts:
            if isinstance(part, Tag):
                unclosed[part.name] += part.opens - part.closing
        opened: list[tuple[str, int]] = []
        for part in parts:
            if isinstance(part, str):
                for text, raw in pieces(part) if is_markup else ((part, part),):
                    self._text(text, raw)
                continue
            hides = not part.name or part.name in OPAQUE or unclosed[part.name] != 0 or part.name not in INLINE
            number = len(self._codes)
            if hides or not (part.opens or part.closing):
                self._code(part.raw, splits=hides, kind=part.name)
            elif part.opens:
                opened.append((part.name, number))
                self._code(part.raw, kind=part.name)
            elif opened and opened[-1][0] == part.name:
                start = opened.pop()[1]
                self._codes[start] = replace(self._codes[start], role="sc", pair=number + 1)
                self._codes.append(Code(self._length, self._length, part.raw, "ec", number + 1, kind=part.name))
            else:
                self._code(part.raw, kind=part.name)
        self._code(CDATA_END, splits=True, kind="cdata end")


def _without_ignored(tokens: Sequence[Token], rules: Rules) -> Iterator[Token]:
    """Yields the tokens; an element that is not translated, or has no content, is one token."""
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
