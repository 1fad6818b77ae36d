"""Converts a block of Markdown to HTML for the translator, and back. Markup is represented by numbered HTML tags, as in
`server.documents.xml_inline`, which stand for the markup as it is written."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from markdown_it.common.utils import normalizeReference

from server.documents.xml_inline import NUMBERED_TAG, Inline
from server.text.html_scanner import scan_markup

TARGET = r"\((?:[^()\s\\]|\\.|\([^()\s]*\))*(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)"
EXTENSION = (
    r"(?:[ \t]?\n|\A|(?<=\n))"
    r"(?:(?:(?::::|!!!|\?\?\?|\[!\w+\])[^\n]*|\$\$[^$]+\$\$)(?:\n|\Z)|:[ \t]+)"
)
"""Lines of an extension of Markdown with the line ends around them: the beginning or end of an admonition (`[!NOTE]` on
GitHub, `:::`, `!!!`), a formula, the mark of a definition. CommonMark reads them as text of the paragraph."""
TOKEN = re.compile(
    r"(?P<atom>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|<[a-z][a-z0-9+.\-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>]+>"
    r"|\[\^[^\]\s]+\]|\[[ xX]\](?=\s))"
    r"|(?P<escaped>\\[!-/:-@\[-`{-~]|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]\w{1,31});)"
    rf"|(?P<gap>(?: {{2,}}|\\)\n\s*|{EXTENSION})"
    r"|(?P<wrap>[ \t]*\n\s*)"
    r"|(?P<tag></?[a-zA-Z][^<>]*>|<!--.*?-->)"
    rf"|(?P<open>!?\[)|(?P<close>\](?:{TARGET}|\[[^\[\]]*\])?)"
    r"|(?P<run>\*+|_+|~~)",
    re.DOTALL,
)


def to_inline(source: str, references: Mapping[str, Any]) -> tuple[Inline, dict[str, str]]:
    """Returns the text of a block as HTML, and how its escaped characters are written."""
    tokens = list(TOKEN.finditer(source))
    pairs = paired(tokens, source, references)
    inline, position = Inline(), 0
    escaped: dict[str, str] = {}
    numbers: dict[int, int] = {}
    for i, token in enumerate(tokens):
        inline.text(source[position : token.start()])
        position = token.end()
        kind = token.lastgroup if token.lastgroup != "ticks" else "atom"
        if kind == "escaped":
            character = token[0][1:] if token[0][0] == "\\" else html.unescape(token[0])
            escaped[character] = token[0]
            inline.text(character)
        elif kind == "wrap":
            inline.text(" ")
        elif kind == "gap":
            inline.gap([token[0]])
        elif kind == "tag" and not NUMBERED_TAG.fullmatch(token[0]):
            inline.raw(token[0])
        elif kind in ("atom", "tag"):
            inline.atom([token[0]])
        elif i in pairs:
            other, _ = pairs[i]
            if other > i:
                numbers[i] = inline.open((token[0], pairs[other][1]))
            else:
                inline.close(numbers[other])
        else:
            inline.text(token[0])
    inline.text(source[position:])
    return inline, escaped


def paired(tokens: Sequence[re.Match[str]], source: str, references: Mapping[str, Any]) -> dict[int, tuple[int, str]]:
    """Returns the markup that surrounds text: for the number of a token, the number of the other one and how the token
    is written. A reference to the text itself becomes a reference to its label, which is not translated."""
    pairs: dict[int, tuple[int, str]] = {}
    stack: list[int] = []
    for i, token in enumerate(tokens):
        if token["open"]:
            stack.append(i)
        elif close := token["close"]:
            start = next((k for k in reversed(stack) if tokens[k]["open"]), None)
            if start is None:
                continue
            label = source[tokens[start].end() : token.start()]
            if close in ("]", "[]", "][]"):
                known = normalizeReference(label) in references
                close = f"][{label}]" if known else ""
            del stack[stack.index(start) :]
            if close:
                pairs[start], pairs[i] = (i, tokens[start][0]), (start, close)
        elif run := token["run"]:
            before, after = source[: token.start()][-1:], source[token.end() : token.end() + 1]
            word = run[0] == "_" and before.isalnum() and after.isalnum()
            start = next((k for k in reversed(stack) if tokens[k]["run"] == run), None)
            if start is not None and before.strip() and not word:
                del stack[stack.index(start) :]
                pairs[start], pairs[i] = (i, run), (start, run)
            elif after.strip() and not word:
                stack.append(i)
    return pairs


def to_markdown(translated: str, inline: Inline, escaped: Mapping[str, str]) -> str:
    """Returns the Markdown of a translated block."""
    parts: list[str] = []
    for token in scan_markup(translated):
        if isinstance(token, str):
            parts.append("".join(escaped.get(character, character) for character in html.unescape(token)))
        elif found := NUMBERED_TAG.fullmatch(token.raw):
            raw = inline.elements[int(found[2])]
            parts.append(raw[0][bool(found[1])] if token.name == "span" else raw[0])
        else:
            parts.append(token.raw)
    return "".join(parts)
