"""Reads Markdown. The blocks that markdown-it finds are translated in place with their markup as
codes, and so are labels in markup: titles of links, attributes that people read, front matter.
Code, link targets and comments are copied.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise
from operator import itemgetter
from os.path import commonprefix
from types import MappingProxyType
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from yaml import YAMLError

from server.documents.document import Document, Place, has_words, in_place
from server.documents.formats.html import LABELS, attribute, labels, spelled_as
from server.documents.formats.messages import blank, find_scalars, rendered
from server.documents.formats.plain import decode
from server.errors import InvalidRequest
from server.text.syntax.html import LONGEST_NAME, Builder, parse
from server.text.syntax.markup import OPAQUE, Tag, markup_tokens
from server.text.syntax.match import Opened
from server.text.tagged import ESCAPES, Tagged
from server.translation import coded_text
from server.translation.coded_text import coded

BLOCKS = MarkdownIt("commonmark").enable("table").disable("inline")
"""Parses the blocks; `to_inline` parses inline markup."""
PARAGRAPH = ["paragraph_open", "inline", "paragraph_close"]
CELLS = ("td_open", "th_open")
FRONT_MATTER = re.compile(
    r"\A(?:---\n.*?\n(?:---|\.\.\.)(?:\n|\Z)|\+\+\+\n.*?\n\+\+\+(?:\n|\Z))", re.DOTALL
)
TITLES = LABELS | set(
    "linkTitle subtitle sidebar_label heading excerpt tagline lead details".split()
)
"""Keys of front matter that a page shows."""
FENCE = re.compile(r"\s*(?:[-*+>]\s+)*(`{3,}|~{3,})([^`\n]*)")
FRAME = re.compile(
    r"[\s>]*(?:(?:\{\{[<%].*[>%]\}\}|\{\{/\*.*\*/\}\}|\{%.*%\}|\{:[^{}]*\}|:(?:class|name|icon|open):.*)"
    r"|/{3,}[ \t]*(?:[\w-]+(?:[ \t]*\|[ \t]*(?P<title4>.+))?)?"
    r"|(?P<body>!!!|\?\?\?\+?|===[!+]?)[ \t]+(?:[\w-][\w -]*)?(?:\"(?P<title1>[^\"]+)\")?"
    r"|:{3,}[ \t]*(?:(?:[\w-]+|\{[\w:-]+\})"
    r"(?:\[(?P<title2>[^\[\]]+)\]|[ \t]+(?P<title3>[^{\[\"]+))?[ \t]*(?:\{[^{}]*\})?)?)\s*"
)
"""A line of a template, or the first line of an admonition or tab of Python-Markdown, whose body is
indented, or a line of `:::`."""
CODE_FRAME = re.compile(
    r"^[ \t>]*\{(?:\{[<%]|%)\s*(/|end|)(highlight|mermaid|code|math|katex|plantuml)\b"
    r"[^{}]*\}\}?\s*$",
    re.MULTILINE,
)
"""Tags of code."""
BODY = re.compile(r"\s*(?:\[\^[^\]\s]+\]:|:[ \t]+\S)")
"""The beginning of a footnote or definition, whose other paragraphs are indented."""
MODULE = re.compile(
    r"import\s+(?:[\w$*{][^'\"]{0,500}?from\s+)?['\"][^'\"\n]+['\"];?\s*$"
    r"|\{/\*(?:[^*]|\*(?!/))*\*/\}\s*$|export\s+(?:(?:const|let|var|function|class|async)\s+[\w$]+\s*[=({]|default\s+(?:(?:function|class|async)\b|[({]|[\w$]+;\s*$)|[*{])",
    re.MULTILINE,
)
"""The beginning of a module of JavaScript or a comment in MDX."""
BLOCK_START = re.compile(r"\n(?=[-+*>|#=]|\d+[.)])")
"""The line end before a word that would begin a block."""
MARKER = re.compile(
    r"^([ \t]*\d{0,9})"
    r"((?<=\d)[.)](?=\s|$)|(?<!\d)(?:[-+*](?=\s|$)|#{1,6}(?=\s|$)|>|(?:=+|-+)(?=\s*$)))",
    re.MULTILINE,
)
"""The mark at the beginning of a line that begins a block."""


class Block(NamedTuple):
    """A part of the file from `start` to `end`. `source` are its lines without their `indent`, which
    begins with the line end. `escaped` are the characters that are escaped, as they are written.
    With `in_line` it begins after a mark, as headings and cells do."""

    start: int
    end: int
    tagged: Tagged
    source: str
    escaped: Mapping[str, str] = MappingProxyType({})
    indent: str = "\n"
    in_line: bool = False


def read(data: bytes, target: str) -> Document:
    """Reads a Markdown file in UTF-8, or in UTF-16 with a byte order mark."""
    text, encode = decode(data, markup=True)
    line_end = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    places, in_markup = places_of(text)

    def write(translations: Sequence[str]) -> bytes:
        new = translations[len(places) :]
        changed = text
        if in_markup:
            changed = in_place(text, str.encode, in_markup, "coded").write(new).decode()
        again = places_of(changed)[0] if changed != text else places
        if len(again) != len(places):  # the labels are left as they were
            changed, again = text, places
        document = in_place(
            changed, lambda made: encode(made.replace("\n", line_end)), again, "coded"
        )
        return document.write(translations[: len(places)])

    return Document(tuple([place.text for place in (*places, *in_markup)]), "coded", write)


def places_of(text: str) -> tuple[list[Place], list[Place]]:
    """Returns the places of the blocks with words, and those of the labels in markup."""
    blocks: list[Place] = []
    in_markup: list[Place] = []
    for part in sorted(find_blocks(text), key=itemgetter(0)):
        if isinstance(part, Place):
            in_markup += [part] if has_words(part.text) else []
        elif has_words(part.tagged.text):
            write = partial(written, part)
            blocks.append(Place(part.start, part.end, coded(part.tagged), write))
    return blocks, in_markup


def labels_of(text: str, start: int, end: int) -> Iterator[Place]:
    """Yields the labels in markup from `start` to `end`."""
    sign, at = text[start:end].lstrip("> \t\n")[:1], start
    for token in markup_tokens(text[start:end]) if sign == "<" else ():
        for value in labels(token):
            yield label_place(text, at + value.start(5), at + value.end(5), is_attribute=True)
        at += len(token if isinstance(token, str) else token.raw)
    for match in QUOTES[sign].finditer(text, start, end) if sign in QUOTES else ():
        yield label_place(text, *match.span(match.lastindex or 0))


def label_place(text: str, start: int, end: int, is_attribute: bool = False) -> Place:
    """Returns the place of a label in quotes or brackets."""
    source, quotes = text[start:end], text[start - 1] + text[end]

    def write(new: str) -> str:
        new = " ".join(new.split())
        if is_attribute:
            return attribute(new, source, quotes[0])
        return re.sub(
            rf"[\\{quotes}]", r"\\\g<0>", new.replace("&", "&amp;") if "&amp;" in source else new
        )

    own = html.unescape(source if is_attribute else re.sub(r"\\(?=[!-/:-@\[-`{-~])", "", source))
    return Place(start, end, coded(Tagged(" ".join(own.split()))), write)


def front_labels(text: str) -> Iterator[Place]:
    """Yields the titles and descriptions in front matter in YAML or TOML."""
    front = FRONT_MATTER.match(text)
    if front and text[0] == "+":
        for match in SHORTCODE.finditer(front[0]):
            yield label_place(text, *match.span(match.lastindex or 0))
    elif front:
        with suppress(YAMLError, ValueError, RecursionError, InvalidRequest):
            for key, value in pairwise(find_scalars(front[0])):
                if key.key and not value.key and key.depth == value.depth and key.text in TITLES:
                    yield Place(value.start, value.end, value.text, partial(rendered, value, text))


def find_blocks(text: str) -> Iterator[Block | Place]:
    """Yields the blocks of text, and the labels in markup."""
    yield from front_labels(text)
    lines = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    references: dict[str, Any] = {}
    end, before = 0, ""
    frame, titles = without_frames(FRONT_MATTER.sub(blank, text))
    for token in BLOCKS.parse(frame, {"references": references}):
        if token.type != "inline":
            before = token.type
        if token.map is None or token.type not in ("inline", "html_block"):
            continue
        position = max(end, lines[token.map[0]])
        if MODULE.match(text, position):
            continue
        limit = min(len(text), lines[min(token.map[1], len(lines) - 1)])
        if token.type == "html_block":
            yield Block(position, limit, parse(text[position:limit]), text[position:limit])
            yield from labels_of(text, position, limit)
            end = limit
            continue
        if not (spans := spans_of(token.content, text, position, limit)):
            continue
        end = spans[-1][1]
        gaps = [text[a:b] for (_, a), (b, _) in pairwise(spans)]
        ends = [gap[gap.index("\n") :] for gap in gaps]
        indent = commonprefix(ends) or "\n"  # noqa: RUF071  characters are meant
        kept = [
            gap[: gap.index("\n") + 1] + end[len(indent) :]
            for gap, end in zip(gaps, ends, strict=True)
        ]
        source = "".join(text[a:b] + gap for (a, b), gap in zip(spans, [*kept, ""], strict=True))
        tagged, escaped = to_inline(source, references)
        for markup in TOKEN.finditer(text, spans[0][0], end):
            yield from labels_of(text, *markup.span())
        if before in CELLS:
            escaped["|"] = "\\|"
        yield Block(
            spans[0][0], end, tagged, source, escaped, indent, before in (*CELLS, "heading_open")
        )
    for reference in references.values():
        start, stop = [lines[number] for number in reference["map"]]
        yield from labels_of(text, start, stop - 1)
    for start, stop in titles:
        if text[start] == "{":
            yield from labels_of(text, start, stop)
            continue
        tagged, escaped = to_inline(text[start:stop], references)
        yield Block(start, stop, tagged, "", {'"': '\\"', **escaped}, in_line=True)


def spans_of(content: str, text: str, position: int, limit: int) -> list[tuple[int, int]]:
    """Returns the places of the lines of a block in a part of the text; none if a line is not
    there."""
    spans: list[tuple[int, int]] = []
    # A line may consist of separators that strip() removes.
    for line in [line.strip() for line in content.split("\n") if line.strip()] or [""]:
        start = text.find(line, position, limit)
        if start < 0:
            start = text.find(line := line.replace("|", "\\|"), position, limit)
        if start < 0:
            return []
        position = start + len(line)
        spans.append((start, position))
    return spans


def without_frames(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Returns the lines of a text without those that match FRAME or are code of templates, which
    become empty, and without the indentation of bodies; and the places of titles and templates."""
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
        frame = None if fence or mark else FRAME.fullmatch(line)
        lines.append("" if frame or fence.isalpha() else line[min(size, 4 * len(bodies)) :])
        if mark and (not fence or (mark[1].startswith(fence) and not mark[2].strip())):
            fence = "" if fence else mark[1]
        if frame["body"] if frame else not fence and BODY.match(line):
            bodies.append(size + 4)
        if frame and frame.lastgroup and frame.lastgroup.startswith("title"):
            titles.append(
                (position + frame.start(frame.lastgroup), position + frame.end(frame.lastgroup))
            )
        elif frame and "{" in line:
            titles.append((position + line.index("{"), position + len(line)))
        position += len(line) + 1
    return "\n".join(lines), titles


def written(block: Block, translated: str) -> str:
    """Returns the Markdown of a translated block in lines of the same length. A block that would
    become other blocks is left as it was."""
    tagged = block.tagged
    if tagged.escape:
        return spelled_as(
            block.source, coded_text.written(translated, tagged.codes, ESCAPES["html"]), {}
        )
    made = coded_text.written(
        translated,
        tagged.codes,
        lambda text: "".join(block.escaped.get(each, each) for each in text),
    )
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
    return [token.type for token in BLOCKS.parse(text)]


def wrapped(text: str, width: int) -> str:
    """Returns text in lines of about `width` characters, unless it has line breaks."""
    lines = textwrap.wrap(
        text, width, expand_tabs=False, break_long_words=False, break_on_hyphens=False
    )
    return text if "\n" in text else BLOCK_START.sub(" ", "\n".join(lines))


TARGET = r"\((?:[^()\s\\]|\\.|\([^()\s]*\))*(?:\s[\s>]*(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)"
EXTENSION = (
    r"(?:[ \t]?\n[ \t]*|\A|(?<=\n))"
    r"(?:(?:\[!\w+\][^\n]*|\$\$[^$]+\$\$)(?:\n|\Z)|:[ \t]+|\[\^[^\]\s]+\]:[ \t]*"
    r"|\[[^\[\]^\n][^\[\]\n]*\]:[ \t]*(?:<[^<>\n]*>|[^\s<]\S*)"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*(?:\n|\Z))"
)
"""Markup of extensions, which CommonMark reads as text, with the line ends around it: the beginning
of an admonition (`[!NOTE]`), a formula, the mark of a definition or footnote, a link definition."""
LABELLED = r"[ \t]*\n[ \t]*(?=(?:\*\*|__)[^*_\n]{1,60}(?::(?:\*\*|__)|(?:\*\*|__):))"
"""The end of a line before one that begins with a label: `**Name:** text`."""
STRONG_LINE = re.compile(r"[ \t]*(\*\*|__)[^*_\n]{1,60}\1[:.!]?")
BADGE = rf"\[!\[(?=[^\[\]\n]*\]{TARGET}\]{TARGET})|\]{TARGET}\]{TARGET}"
"""The beginning or the end of a picture that is a link."""
JSX = r"</?(?:[A-Z][\w.]*(?:[^<>{}]*\{[^{}\n]*\})*[^<>{}]*)?/?>"
"""A tag of a component or of a fragment in MDX."""
CHARACTER = r"\\[!-/:-@\[-`{-~]|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]\w{1,31});"
WRAP = r"[ \t]*\n\s*"
ESCAPED = re.compile(f"({CHARACTER}|{WRAP})")
QUOTED = r"(?:([\"'])((?:(?!\1|\\).|\\.)+)\1|\(((?:[^()\\]|\\.)+)\))"
TITLE = re.compile(rf"\s{QUOTED}(?=\s*(?:\)|\Z))", re.DOTALL)
"""The title of a link, of a picture, or of a definition of one."""
SHORTCODE = re.compile(rf"\s(?:{'|'.join(sorted(TITLES))})\s*=\s*{QUOTED}")
"""An attribute of a template that people read."""
QUOTES = {"{": SHORTCODE, "[": TITLE, "]": TITLE}
"""Patterns of the labels in markup, by its first character."""
TOKEN = re.compile(
    r"(?P<atom>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|<[a-z][a-z0-9+.\-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>]+>"
    r"|\[\^[^\]\s]+\]|\[[ xX]\](?=\s)|(?<=[)\]`*_])\{[^{}\n]+\}|\{\{[<%][^\n]*?[>%]\}\})"
    rf"|(?P<escaped>{CHARACTER})"
    r"|(?P<gap>(?<![ \t])[ \t]+\{(?:[#.:]|/\*)[^{}\n]+\}[ \t]*\Z"
    rf"|(?: {{2,}}|\\)\n\s*|(?:[ \t]*\n\s*)?{JSX}[ \t]*\n\s*|[ \t]*\n\s*{JSX}"
    rf"|{EXTENSION}|{LABELLED}|{BADGE})"
    rf"|(?P<wrap>{WRAP})"
    rf"|(?P<tag>{JSX}|<(?P<name>{'|'.join(OPAQUE)})\b[^<>]*>.{{0,2000}}?</(?P=name)\s*>|</?[a-zA-Z][^<>]*>|<!--.*?-->|<[!?][^<>]*>)"
    rf"|(?P<open>!?\[)|(?P<close>\](?:{TARGET}|\[[^\[\]]*\])?)"
    r"|(?P<run>\*+|_+|~~)",
    re.DOTALL,
)


def to_inline(source: str, references: Mapping[str, Any]) -> tuple[Tagged, dict[str, str]]:
    """Returns the text of a block with its codes, and its escaped characters as they are written."""
    tokens = list(TOKEN.finditer(source))
    pairs = paired(tokens, source, references)
    parts: list[str | Tag] = []
    escaped: dict[str, str] = {}
    position = 0
    for i, token in enumerate(tokens):
        kind, raw = token.lastgroup, token[0]
        if kind == "wrap" and STRONG_LINE.fullmatch(
            source, source.rfind("\n", 0, token.start()) + 1, token.start()
        ):
            kind = "gap"
        if kind in ("escaped", "wrap") or (kind in ("open", "close", "run") and i not in pairs):
            continue
        parts.append(source[position : token.start()])
        position = token.end()
        if kind == "gap":
            parts.append(Tag(raw, "br"))
        elif kind == "tag":
            parts += markup_tokens(raw)
        elif kind == "atom":
            code = " ".join(raw.strip("`").split()) if token["ticks"] else ""
            is_name = 0 < len(code) <= LONGEST_NAME and "`" not in code
            parts.append(Tag(raw, "code", equiv=code) if is_name else Tag(raw, "img"))
        else:
            other, closing = pairs[i]
            parts.append(Tag(raw if other > i else closing, "span", other < i))
    parts.append(source[position:])

    def read(raw: str) -> Iterator[tuple[str, str]]:
        for number, part in enumerate(ESCAPED.split(raw)):
            if number % 2 == 0 or not part.strip():
                yield " " if number % 2 else part, part
                continue
            character = part[1:] if part[0] == "\\" else html.unescape(part)
            escaped[character] = part
            yield character, part

    return Builder(read=read).build(parts).tagged(""), escaped


def paired(
    tokens: Sequence[re.Match[str]], source: str, references: Mapping[str, Any]
) -> dict[int, tuple[int, str]]:
    """Returns pairs of markup around text: for the number of a token, the number of the other token
    and how the token is written. A reference by its own text becomes one by a label, which is not
    translated."""
    pairs: dict[int, tuple[int, str]] = {}
    opened = Opened[int]()
    for i, token in enumerate(tokens):
        if token["open"]:
            opened.add("[", i)
        elif close := token["close"]:
            start = opened.close("[")
            if start is None:
                continue
            label = source[tokens[start].end() : token.start()]
            if close in ("]", "[]", "][]"):
                is_defined = normalizeReference(label) in references
                close = f"][{label}]" if is_defined else ""
            if close:
                pairs[start], pairs[i] = (i, tokens[start][0]), (start, close)
        elif run := token["run"]:
            before, after = (
                source[max(0, token.start() - 1) : token.start()],
                source[token.end() : token.end() + 1],
            )
            word = run[0] == "_" and before.isalnum() and after.isalnum()
            start = opened.close(run) if before.strip() and not word else None
            if start is not None:
                pairs[start], pairs[i] = (i, run), (start, run)
            elif after.strip() and not word:
                opened.add(run, i)
    return pairs
