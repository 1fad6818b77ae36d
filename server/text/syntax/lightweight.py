"""Scans lightweight markup and the separators of lists on one line.

- Markdown: GitHub Flavored Markdown, https://github.github.com/gfm/ (4.5 fenced code blocks, 4.10
  tables, 6.3 to 6.8 inlines)
- Markup in brackets: BBCode, shortcodes of WordPress (`[gallery ids="1,2"]`), links of wikis
  (`[[page]]`) and Org (`[[a][b]]`), roles of AsciiDoc (`[.name]#text#`), merge tags of Mailchimp
  (`*|NAME|*`). A tag without a value and without a partner is text: `[sic]`.
- LaTeX: Lamport, LaTeX: A Document Preparation System, appendix C
"""

from __future__ import annotations

import re

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
"""Code that may be followed by a letter: Run`make`now, but not l`homme d`affaires."""
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
    end = source.computed(_fences).get(at, 0)
    return Match(at, end, "break", "fence") if end else None


def code_span(source: Source, at: int) -> Match | None:
    """Returns a code span on one line. Quotes of TeX are no code: ``one'' and ``two''."""
    end = source.computed(_code_spans).get(at, 0)
    return Match(at, end, "word", "code span") if end else None


def strong(source: Source, at: int) -> Match | None:
    found = _STRONG.match(source.text, at)
    return Match(at, found.end(), "open", "strong", found[0]) if found else None


def emphasis(source: Source, at: int) -> Match | None:
    """Returns an asterisk, an underscore or quotes of a wiki at an edge of a word. Without a partner
    it is text, as is an underscore around a single word."""
    opened = _OPENED.match(source.text, at)
    if found := opened or _CLOSED.match(source.text, at):
        return Match(at, found.end(), "open" if opened else "close", "emphasis", found[0])
    return None


def link(source: Source, at: int) -> Match | None:
    bracket = at + (source.text[at] == "!")
    end = source.computed(_links).get(bracket)
    if end:
        return Match(at, end, "close", "link", "[")
    return None if end is None else Match(at, bracket + 1, "open", "link", "[")


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


def _links(text: str) -> dict[int, int]:
    """Returns the brackets of links, a closing one with the end of its target, others with 0."""
    links: dict[int, int] = {}
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
                links[start], links[close] = 0, target.end()
    return links


_BBCODE = re.compile(
    r"\[(/?)([a-z]{1,20})((?: [\w-]{1,30})?=[^\[\]\n]{1,200})? ?/?\]", re.IGNORECASE
)
wiki_link = by_pattern(r"\[\[[^\[\]\n]{1,100}\]\]", "wiki link")
list_item = by_pattern(r"\[\*\]", "item", "break")
org_link = by_pattern(r"\[\[[^\[\]\s]{1,300}\]\[(?=[^\[\]\n]{1,300}\]\])", "org link", "open")
role = by_pattern(r"\[\.[\w.-]+\]#(?=[^#\n]{1,200}#)", "emphasis", "open")
role_end = by_pattern(r"(?<=[\w.?!)/*])#(?!\w)", "emphasis", "close")
org_link_end = by_pattern(r"\]\](?!\()", "org link", "close")
merge_tag = by_pattern(r"\*\|[^|*\n]{1,100}\|\*", "merge tag")


def bbcode(source: Source, at: int) -> Match | None:
    if found := _BBCODE.match(source.text, at):
        return Match(at, found.end(), "close" if found[1] else "open", "bbcode", found[2].lower())
    return None


math = by_pattern(
    r"\$\$[^$]{1,500}\$\$"
    r"|\$(?![\s{<])(?=[^$\n]{0,200}?[\\^_=+*/]|(?!\d)(?:[^$\n]{0,200}?(?:\{| [<>] )|[^$\n]{1,3}\$))"
    r"[^$\n]{1,200}?(?<![\s\\])(?<!%\d)\$(?![\w$@])",
    "math",
)
"""A formula between dollars, not amounts: `$5 ... $6`."""
display = by_pattern(
    r"\\\(.{1,500}?\\\)|\\\[(?![\w "
    r"'’,-]{4,200}\\\]).{1,500}?\\\]|\\begin\{(\w+\*?)\}.{0,2000}?\\end\{\1\}",
    "math",
    flags=re.DOTALL,
)
tie = by_pattern(r"~(?=\\[a-z])", "tie", "point")
"""A space: `Figure~\\ref{a}`."""
text_command = by_pattern(
    r"\\(?:emph|text(?!tt)[a-z]{2}|underline|(?:sub)*section\*?|chapter|paragraph|title|caption|footnote)\{"
    r"(?=(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,500}+\})",
    "text command",
    "open",
)
text_command_end = by_pattern(r"\}", "text command", "close")
command = by_pattern(r"\\[a-z]{2,}\*?(?:\[[^\]\n]{0,100}\])?(?:\{[^{}\n]{0,200}\})+", "command")


ICONS = "\u2610-\u2612\u2713-\u2718\ue000-\uf8ff"
_AT_END = re.compile(r"(?<![^\n])[|¦‹›·•](?!\S)|(?<!\S)[|¦‹›·•](?![^\n])")
_BETWEEN = re.compile(
    r"(?:(?<=[^\W\d_]{2} )|(?<=» ))[>›»«](?= (?:[^\W\d_]{3}|[A-Z]{2}))|(?<= )[|¦](?= )"
    r"|(?:(?<=[^\W\d_]{2} )|(?<=[)\]!?.…»”\"] ))[·•](?= [\"„“«(]?[^\W\d_]{2})"
)
_ICON = re.compile(rf"(?<!\S)[{ICONS}] ?(?=[A-ZÀ-Þ]\w)")


def separator(source: Source, at: int) -> Match | None:
    """Returns the separator at a sign. Operators (4 · 10, a > b) are text, as is a single sign before
    a small letter."""
    text = source.text
    if _AT_END.match(text, at) is None:
        if _BETWEEN.match(text, at) is None:
            return None
        is_joined = text[at + 2 : at + 3].islower() and (
            text[at] in ">›»" or not source.computed(_is_list)
        )
        if is_joined or (text[at] in "«»" and source.computed(_is_quoted)):
            return None
    return Match(at, at + 1, "break", "separator")


def icon(source: Source, at: int) -> Match | None:
    """Returns the icon of a list item. A text with a single icon has no list."""
    is_item = _ICON.match(source.text, at) and len(source.computed(_ICON.findall)) > 1
    return Match(at, at + 1, "break", "separator") if is_item else None


def _is_quoted(text: str) -> bool:
    return 0 <= text.find("«") < text.rfind("»")


def _is_list(text: str) -> bool:
    return max(map(text.count, ("| ", "· ", "• "))) > 1
