"""Reads Markdown (.md). Paragraphs, headings, table cells and HTML blocks are translated in place; everything else (code,
link targets, front matter, comments) is copied. markdown-it finds the blocks; their markup are numbered codes.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from os.path import commonprefix
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference

from server.documents.document import Document, has_words
from server.documents.formats.html import spelled_as
from server.documents.formats.numbered import NUMBERED_TAG, NumberedText
from server.documents.formats.plain import decode
from server.text.offsets import edited
from server.text.syntax.html import parse

BLOCKS = MarkdownIt("commonmark").enable("table").disable("inline")
"""Finds the blocks; inline markup is read by `to_inline`."""
PARAGRAPH = ["paragraph_open", "inline", "paragraph_close"]
CELLS = ("td_open", "th_open")
FRONT_MATTER = re.compile(r"---\n.*?\n(?:---|\.\.\.)(?:\n|\Z)|\+\+\+\n.*?\n\+\+\+(?:\n|\Z)", re.DOTALL)
FENCE = re.compile(r"\s*(?:[-*+>]\s+)*(`{3,}|~{3,})([^`\n]*)")
FRAME = re.compile(
    r"[\s>]*(?:(?:\{\{[<%].*[>%]\}\}|\{\{/\*.*\*/\}\}|\{%.*%\}|\{:[^{}]*\}|:(?:class|name|icon|open):.*)"
    r"|/{3,}[ \t]*(?:[\w-]+(?:[ \t]*\|[ \t]*(?P<title4>.+))?)?"
    r"|(?P<body>!!!|\?\?\?\+?|===[!+]?)[ \t]+(?:[\w-][\w -]*)?(?:\"(?P<title1>[^\"]+)\")?"
    r"|:{3,}[ \t]*(?:(?:[\w-]+|\{[\w:-]+\})(?:\[(?P<title2>[^\[\]]+)\]|[ \t]+(?P<title3>[^{\[\"]+))?[ \t]*(?:\{[^{}]*\})?)?)\s*"
)
"""A line of a template, or of an admonition or tab (of Python-Markdown, whose body is indented, or of `:::`)."""
CODE_FRAME = re.compile(
    r"^[ \t>]*\{(?:\{[<%]|%)\s*(/|end|)(highlight|mermaid|code|math|katex|plantuml)\b[^{}]*\}\}?\s*$", re.MULTILINE
)
"""Tags of code."""
BODY = re.compile(r"\s*(?:\[\^[^\]\s]+\]:|:[ \t]+\S)")
"""The beginning of a note or definition, whose other paragraphs are indented."""
MODULE = re.compile(
    r"import\s+(?:[\w$*{][^'\"]{0,500}?from\s+)?['\"][^'\"\n]+['\"];?\s*$"
    r"|\{/\*(?:[^*]|\*(?!/))*\*/\}\s*$|export\s+(?:(?:const|let|var|function|class|async)\s+[\w$]+\s*[=({]|default\s+(?:(?:function|class|async)\b|[({]|[\w$]+;\s*$)|[*{])",
    re.MULTILINE,
)
"""The beginning of a module of JavaScript or a comment in MDX."""
BLOCK_START = re.compile(r"\n(?=[-+*>|#=]|\d+[.)])")
"""The line end before a word that would begin a block."""
MARKER = re.compile(
    r"^([ \t]*\d{0,9})((?<=\d)[.)](?=\s|$)|(?<!\d)(?:[-+*](?=\s|$)|#{1,6}(?=\s|$)|>|(?:=+|-+)(?=\s*$)))", re.MULTILINE
)
"""The mark at the beginning of a line that begins a block."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the file from `start` to `end`. `source` are its lines without their `indent`, the line break within it with
    the indentation of the next line. `escaped` are the characters that are written as in the source. `inline` is None for
    a block of HTML. One that is `in_line` begins after a mark, as headings and cells do."""

    start: int
    end: int
    html: str
    source: str = ""
    inline: NumberedText | None = None
    escaped: Mapping[str, str] = field(default_factory=dict)
    indent: str = "\n"
    in_line: bool = False


def read(data: bytes, target: str) -> Document:
    """Reads a Markdown file in UTF-8, or in UTF-16 with a byte order mark."""
    text, encode = decode(data)
    line_end = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = sorted(find_blocks(text), key=lambda block: block.start)
    blocks = [block for block in found if has_words(parse(block.html).text)]

    def write(translations: Sequence[str]) -> bytes:
        edits = [
            (block.start, block.end, written(block, translated))
            for block, translated in zip(blocks, translations, strict=True)
            if translated != block.html  # an unchanged block is copied
        ]
        return encode(edited(text, edits)[0].replace("\n", line_end))

    return Document(tuple(block.html for block in blocks), "html", write)


def find_blocks(text: str) -> Iterator[Block]:
    """Yields the blocks of text."""
    matter = FRONT_MATTER.match(text)
    offset = matter.end() if matter else 0
    lines = [0]
    for line in text[offset:].split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    environment: dict[str, Any] = {}
    end = offset
    before = ""
    frame, titles = without_frames(text[offset:])
    for token in BLOCKS.parse(frame, environment):
        if token.type != "inline":
            before = token.type
        if token.map is None or token.type not in ("inline", "html_block"):
            continue
        position = max(end, offset + lines[token.map[0]])
        if MODULE.match(text, position):
            continue
        limit = min(len(text), offset + lines[min(token.map[1], len(lines) - 1)])
        if token.type == "html_block":
            yield Block(position, limit, text[position:limit])
            end = limit
            continue
        spans: list[tuple[int, int]] = []
        # A line may consist of separators that strip() removes.
        for content in [line.strip() for line in token.content.split("\n") if line.strip()] or [""]:
            start = text.find(content, position, limit)
            if start < 0:
                start = text.find(content := content.replace("|", "\\|"), position, limit)
            if start < 0:
                break
            position = start + len(content)
            spans.append((start, position))
        else:
            end = position
            gaps = [text[a:b] for (_, a), (b, _) in pairwise(spans)]
            ends = [gap[gap.index("\n") :] for gap in gaps]
            indent = commonprefix(ends) or "\n"  # noqa: RUF071  characters are meant
            kept = [gap[: gap.index("\n") + 1] + end[len(indent) :] for gap, end in zip(gaps, ends, strict=True)]
            source = "".join(text[a:b] + gap for (a, b), gap in zip(spans, [*kept, ""], strict=True))
            inline, escaped = to_inline(source, environment.get("references", {}))
            if before in CELLS:
                escaped["|"] = "\\|"
            yield Block(
                spans[0][0], end, inline.html, source, inline, escaped, indent, before in (*CELLS, "heading_open")
            )
    for start, stop in titles:
        inline, escaped = to_inline(text[offset + start : offset + stop], environment.get("references", {}))
        yield Block(offset + start, offset + stop, inline.html, "", inline, {'"': '\\"', **escaped}, in_line=True)


def without_frames(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Returns text with as many lines, in which those of templates and the first and last ones of admonitions and tabs are
    empty, and their bodies are not indented; and the places of their titles."""
    lines: list[str] = []
    titles: list[tuple[int, int]] = []
    bodies: list[int] = []
    fence, position = "", 0
    ends = {code[2]: code.start() for code in CODE_FRAME.finditer(text) if code[1]}
    for line in text.split("\n"):
        size = len(line) - len(line.lstrip(" "))
        while bodies and line.strip() and size < bodies[-1]:
            bodies.pop()
        code = CODE_FRAME.match(line)
        if code and code[1] and fence == code[2]:
            fence = ""
        elif code and not code[1] and not fence and position < ends.get(code[2], 0):
            fence = code[2]
        mark = None if fence.isalpha() else FENCE.match(line)
        found = None if fence or mark else FRAME.fullmatch(line)
        lines.append("" if found or fence.isalpha() else line[min(size, 4 * len(bodies)) :])
        if mark and (not fence or (mark[1].startswith(fence) and not mark[2].strip())):
            fence = "" if fence else mark[1]
        if found["body"] if found else not fence and BODY.match(line):
            bodies.append(size + 4)
        if found and found.lastgroup and found.lastgroup.startswith("title"):
            titles.append((position + found.start(found.lastgroup), position + found.end(found.lastgroup)))
        position += len(line) + 1
    return "\n".join(lines), titles


def written(block: Block, translated: str) -> str:
    """Returns the Markdown of a translated block, in lines of the same length. One that would become other blocks, because it
    loses a line or begins with a comment, is left as it was."""
    if block.inline is None:
        return spelled_as(block.html, translated, {})
    made = block.inline.written(parse(translated), lambda text: "".join(block.escaped.get(each, each) for each in text))
    made, lines = made.lstrip(" "), block.source.split("\n")
    if len(lines) > 1:
        made = wrapped(made, max(len(line.strip()) for line in lines))
    if not block.in_line:
        if not MARKER.search(block.source):
            made = MARKER.sub(r"\1\\\2", made)
        is_whole = all(line.strip() for line in made.split("\n"))
        if not is_whole or kinds(made) not in (PARAGRAPH, kinds(block.source)):
            made = block.source
    return made.replace("\n", block.indent)


def kinds(text: str) -> list[str]:
    """Returns the kinds of the blocks of a text."""
    return [token.type for token in BLOCKS.parse(text)]


def wrapped(text: str, width: int) -> str:
    """Returns text in lines of about `width` characters, unless it has line breaks that are part of it."""
    lines = textwrap.wrap(text, width, expand_tabs=False, break_long_words=False, break_on_hyphens=False)
    return text if "\n" in text else BLOCK_START.sub(" ", "\n".join(lines))


TARGET = r"\((?:[^()\s\\]|\\.|\([^()\s]*\))*(?:\s+(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'))?\s*\)"
EXTENSION = (
    r"(?:[ \t]?\n[ \t]*|\A|(?<=\n))"
    r"(?:(?:\[!\w+\][^\n]*|\$\$[^$]+\$\$)(?:\n|\Z)|:[ \t]+|\[\^[^\]\s]+\]:[ \t]*"
    r"|\[[^\[\]^\n][^\[\]\n]*\]:[ \t]*(?:<[^<>\n]*>|[^\s<]\S*)(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*(?:\n|\Z))"
)
"""Lines that CommonMark reads as text, with the line ends around them: the beginning of an admonition (`[!NOTE]`), a formula,
the mark of a definition or of a footnote, the definition of a link."""
LABELLED = r"[ \t]*\n[ \t]*(?=(?:\*\*|__)[^*_\n]{1,60}(?::(?:\*\*|__)|(?:\*\*|__):))"
"""The end of a line before one that begins with a label: `**Name:** text`."""
JSX = r"</?(?:[A-Z][\w.]*(?:[^<>{}]*\{[^{}\n]*\})*[^<>{}]*)?/?>"
"""A tag of a component or of a fragment in MDX."""
TOKEN = re.compile(
    r"(?P<atom>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|<[a-z][a-z0-9+.\-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>]+>"
    r"|\[\^[^\]\s]+\]|\[[ xX]\](?=\s)|(?<=[)\]`*_])\{[^{}\n]+\}|\{\{[<%][^\n]*?[>%]\}\})"
    r"|(?P<escaped>\\[!-/:-@\[-`{-~]|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]\w{1,31});)"
    r"|(?P<gap>(?<![ \t])[ \t]+\{(?:[#.:]|/\*)[^{}\n]+\}[ \t]*\Z"
    rf"|(?: {{2,}}|\\)\n\s*|(?:[ \t]*\n\s*)?{JSX}[ \t]*\n\s*|[ \t]*\n\s*{JSX}|{EXTENSION}|{LABELLED})"
    r"|(?P<wrap>[ \t]*\n\s*)"
    rf"|(?P<tag>{JSX}|</?[a-zA-Z][^<>]*>|<!--.*?-->)"
    rf"|(?P<open>!?\[)|(?P<close>\](?:{TARGET}|\[[^\[\]]*\])?)"
    r"|(?P<run>\*+|_+|~~)",
    re.DOTALL,
)


def to_inline(source: str, references: Mapping[str, Any]) -> tuple[NumberedText, dict[str, str]]:
    """Returns the text of a block as HTML, and how its escaped characters are written."""
    tokens = list(TOKEN.finditer(source))
    pairs = paired(tokens, source, references)
    inline, position = NumberedText(), 0
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
            inline.gap(token[0])
        elif kind == "tag" and not NUMBERED_TAG.fullmatch(token[0]):
            inline.parts.append(token[0])
        elif kind in ("atom", "tag"):
            code = token[0].strip("`") if token["ticks"] else ""
            inline.atom(token[0], "" if "`" in code else code)
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
    stack: list[tuple[int, str]] = []
    waiting: Counter[str] = Counter()  # number of openings in the stack by kind, which bounds the time of a search

    def opening(kind: str) -> int | None:
        """Removes the last opening of a kind and those after it, and returns its number."""
        while waiting[kind]:
            number, last = stack.pop()
            waiting[last] -= 1
            if last == kind:
                return number
        return None

    for i, token in enumerate(tokens):
        kind = "open" if token["open"] else ""
        if close := token["close"]:
            start = opening("open")
            if start is None:
                continue
            label = source[tokens[start].end() : token.start()]
            if close in ("]", "[]", "][]"):
                is_defined = normalizeReference(label) in references
                close = f"][{label}]" if is_defined else ""
            if close:
                pairs[start], pairs[i] = (i, tokens[start][0]), (start, close)
        elif run := token["run"]:
            before, after = source[max(0, token.start() - 1) : token.start()], source[token.end() : token.end() + 1]
            word = run[0] == "_" and before.isalnum() and after.isalnum()
            start = opening(run) if before.strip() and not word else None
            if start is not None:
                pairs[start], pairs[i] = (i, run), (start, run)
            elif after.strip() and not word:
                kind = run
        if kind:
            stack.append((i, kind))
            waiting[kind] += 1
    return pairs
