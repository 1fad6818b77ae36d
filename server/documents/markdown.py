"""Reads Markdown (.md). Paragraphs, headings, table cells and HTML blocks are translated in place; everything else (code,
link targets, front matter, comments) is copied.

markdown-it finds the blocks; `server.documents.markdown_inline` reads their content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt

from server.documents.document import Document, has_words
from server.documents.markdown_inline import to_inline, to_markdown
from server.documents.plain import decode
from server.documents.xml_inline import Inline
from server.text.offsets import edited

FRONT_MATTER = re.compile(r"---\n.*?\n(?:---|\.\.\.)(?:\n|\Z)|\+\+\+\n.*?\n\+\+\+(?:\n|\Z)", re.DOTALL)
TAG = re.compile("<[^>]*>")
BLOCK_START = re.compile(r"(?:[-+*>|#=]|\d+[.)])")
"""Words that would begin a block at the beginning of a line."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the file from `start` to `end`. `indent` is the line break within it with the indentation of the next
    line, `width` the length of its longest line. `escaped` are the characters that are written as in the source.
    `inline` is None for a block of HTML."""

    start: int
    end: int
    html: str
    inline: Inline | None = None
    escaped: Mapping[str, str] = field(default_factory=dict)
    indent: str = "\n"
    width: int = 0
    wraps: bool = False


def read(data: bytes) -> Document:
    """Reads a Markdown file in UTF-8, or in UTF-16 with a byte order mark. Raises InvalidRequest."""
    text, encode = decode(data)
    line_end = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    blocks = [
        block
        for block in find_blocks(text)
        if has_words(block.inline.words if block.inline else TAG.sub(" ", block.html))
    ]

    def write(translations: Sequence[str]) -> bytes:
        edits = [
            (block.start, block.end, written(block, translated))
            for block, translated in zip(blocks, translations, strict=True)
            if translated != block.html  # an unchanged block is copied
        ]
        return encode(edited(text, edits)[0].replace("\n", line_end))

    return Document(tuple(block.html for block in blocks), "html", write)


def find_blocks(text: str) -> Iterator[Block]:
    """Yields the blocks of text in order."""
    matter = FRONT_MATTER.match(text)
    offset = matter.end() if matter else 0
    lines = [0]
    for line in text[offset:].split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    environment: dict[str, Any] = {}
    end = offset
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text[offset:], environment):
        if token.map is None or token.type not in ("inline", "html_block"):
            continue
        position = max(end, offset + lines[token.map[0]])
        limit = min(len(text), offset + lines[min(token.map[1], len(lines) - 1)])
        if token.type == "html_block":
            yield Block(position, limit, text[position:limit])
            end = limit
            continue
        spans: list[tuple[int, int]] = []
        for line in token.content.split("\n"):
            wanted = line.strip()
            start = text.find(wanted, position, limit)
            if start < 0:
                start = text.find(wanted := wanted.replace("|", "\\|"), position, limit)
            if start < 0:
                break
            position = start + len(wanted)
            spans.append((start, position))
        else:
            end = position
            gaps = [text[a:b] for (_, a), (b, _) in pairwise(spans)]
            source = "".join(
                text[a:b] + gap[: gap.index("\n") + 1] for (a, b), gap in zip(spans, [*gaps, "\n"], strict=True)
            )
            inline, escaped = to_inline(source.removesuffix("\n"), environment.get("references", {}))
            indent = gaps[0].lstrip(" ") if gaps else "\n"
            yield Block(
                spans[0][0], end, inline.html, inline, escaped, indent, max(b - a for a, b in spans), bool(gaps)
            )


def written(block: Block, translated: str) -> str:
    """Returns the Markdown of a translated block, in lines of the same length."""
    if block.inline is None:
        return translated
    made = to_markdown(translated, block.inline, block.escaped)
    return (wrapped(made, block.width) if block.wraps else made).replace("\n", block.indent)


def wrapped(text: str, width: int) -> str:
    """Returns text in lines of about `width` characters, unless it has line breaks that are part of it."""
    if "\n" in text:
        return text
    lines: list[str] = []
    for word in text.split(" "):
        if lines and (len(lines[-1]) + len(word) < width or BLOCK_START.match(word) or not word):
            lines[-1] += " " + word
        else:
            lines.append(word)
    return "\n".join(lines)
