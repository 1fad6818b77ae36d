"""Scans Markdown (GitHub Flavored Markdown, https://github.github.com/gfm/: 4.5 fenced code blocks,
6.3 code spans, 6.4 emphasis, 6.5 strikethrough, 6.6 links, 6.7 images, 6.8 autolinks)."""

from __future__ import annotations

import re

from server.text.segmentation import Span
from server.text.syntax.match import Match, Source, by_pattern

_LONGEST = 400
_FENCE = re.compile(r"^[ ]{0,3}(`{3,20}|~{3,20})([^\n]*)$", re.MULTILINE)
_TICKS = re.compile(r"`+")
_BRACKETS = re.compile(r"\\.|[\[\]\n]", re.DOTALL)
_TARGET = re.compile(
    r"\]\(\s?(?:<[^<>\n]{0,500}>|(?:[^()\s]|\([^()\s]{0,200}\)){0,500}+)(?:\s+(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'))?\s?\)"
)
_REFERENCE = re.compile(
    r"(?<=[\w.!?)`*])\]\[(?:\d{1,3}|(?=[^\[\]\n]*[^\W\d_]{2})\w[^\[\]\n]{0,100})\](?![\w\[])"
)
_BEFORE_REFERENCE = re.compile(
    r"(?<![\w\])=])!?\[(?=[^\[\]\n]{0,30}?[^\W\d_]{2}|[^\[\]]+\]\[\D)[\w`*]"
)
_NAME = re.compile(r"\S{2,}")
"""Code that may have a word after it: Run`make`now. In l`homme d`affaires there is none."""
_TEX_QUOTE = re.compile(r"[^'`]*'(?!\w).* ")
quote = by_pattern(r"(?<![\w`])`(?=\S(?:[^`'\n]|'(?=\w)){0,99}'(?!['\w]))", "quote", "open")
quote_end = by_pattern(r"(?<=[^\s'])'(?!['\w])", "quote", "close")
_STRONG = re.compile(r"\*{2,3}(?=[^\s*])|~~(?=[^\s~])|(?<=[^\s*])\*{2,3}|(?<=[^\s~])~~")
_END_OF_WORD = r"(?<=[\w.,!?…%)}>\"'»“”’])"
_OPENED = re.compile(
    rf"(?<![\w*_\\])(?=.(?:[^\W_]|[\"'«„“‘(¿¡]['\w]|[{{$%@<]\S))(?:\*(?=[^*\n]{{1,300}}{_END_OF_WORD}\*(?![\w*]))"
    rf"|_(?=[^\s_]{{1,100}} )(?=[^_\n]{{1,300}}{_END_OF_WORD}_(?!\w))|(?<!')'{{2,3}}(?=[^\s']))"
)
_CLOSED = re.compile(rf"{_END_OF_WORD}(?:[*_](?![\w*])|(?<!')'{{2,3}}(?![\w']))")
autolink = by_pattern(
    r"<(?:(?:https?|ftp)://|mailto:|tel:)[^<>\s]{1,500}>|<[\w.+-]{1,64}@[\w.-]{1,100}>", "autolink"
)


def fence(source: Source, at: int) -> Match | None:
    """Returns a fenced code block with its end."""
    end = source.computed(_fences).get(at, 0)
    return Match(at, end, "break", "fence") if end else None


def code_span(source: Source, at: int) -> Match | None:
    """Returns a code span of one line. Quotes of TeX are none: ``one'' and ``two''."""
    end = source.computed(_code_spans).get(at, 0)
    return Match(at, end, "word", "code span") if end else None


def strong(source: Source, at: int) -> Match | None:
    found = _STRONG.match(source.text, at)
    return Match(at, found.end(), "open", "strong", found[0]) if found else None


def emphasis(source: Source, at: int) -> Match | None:
    """Returns an asterisk, an underscore or quotes of a wiki at the beginning or the end of words.
    They count only with their partners; an underscore around several words."""
    opened = _OPENED.match(source.text, at)
    found = opened or _CLOSED.match(source.text, at)
    return (
        Match(at, found.end(), "open" if opened else "close", "emphasis", found[0])
        if found
        else None
    )


def link(source: Source, at: int) -> Match | None:
    """Returns the beginning or the end of a link or an image."""
    opened = source.computed(_links)
    bracket = at + (source.text[at] == "!")
    if bracket in opened:
        close = opened[bracket]
        return (
            Match(at, bracket + 1, "open", "link", "[")
            if close[1]
            else Match(at, close[0], "close", "link", "[")
        )
    return None


def _fences(text: str) -> dict[int, int]:
    blocks: dict[int, int] = {}
    ends: dict[str, int] = {}
    for found in reversed(list(_FENCE.finditer(text))):
        ticks = found[1]
        if ticks in ends:
            blocks[found.start(1)] = ends[ticks]
        if not found[2].strip():
            ends.update({ticks[:length]: found.end() for length in range(3, len(ticks) + 1)})
    return blocks


def _code_spans(text: str) -> dict[int, int]:
    spans: dict[int, int] = {}
    later: dict[int, int] = {}
    for found in reversed(list(_TICKS.finditer(text))):
        start, end = found.span()
        close = later.get(end - start, -1)
        if 0 <= close <= end + _LONGEST and "\n" not in (content := text[end:close]):
            last = close + end - start
            after = text[last : last + (1 if text[start - 1 : start].isalpha() else 2)]
            if _is_code(content) and (not after.isalpha() or _NAME.fullmatch(content)):
                spans[start] = last
        later[end - start] = start
    return spans


def _is_code(content: str) -> bool:
    if (" " in (content[0], content[-1]) and "`" not in content) or "''" in content:
        return False
    return content.count("'") % 2 == 0 or not _TEX_QUOTE.match(content)


def _links(text: str) -> dict[int, Span]:
    """Returns for each bracket that begins a link the pair (0, 1), and for each that ends one its
    end and 0."""
    links: dict[int, Span] = {}
    opened: list[int] = []
    for found in _BRACKETS.finditer(text):
        if found[0] == "\n":
            opened.clear()
        elif found[0] == "[":
            opened.append(found.start())
        elif found[0] == "]" and opened:
            start, close = opened.pop(), found.start()
            target = _TARGET.match(text, close)
            if target is None and _BEFORE_REFERENCE.match(text, start):
                target = _REFERENCE.match(text, close)
            if target and start + 1 < close <= start + 500:
                links[start], links[close] = (0, 1), (target.end(), 0)
    return links
