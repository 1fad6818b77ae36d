"""Parses the messages of ICU MessageFormat and Fluent, whose arms are translated on their own.

Grammar of ICU: https://unicode-org.github.io/icu/userguide/format_parse/messages/ (`{count, plural,
=0 {none} other {# files}}`). An apostrophe before a brace, `#` or `|` quotes up to the next one;
two of them stand for one. Grammar of Fluent:
https://github.com/projectfluent/fluent/blob/main/spec/fluent.ebnf (`{ $count -> [one] a file
*[other] { $count } files }`).
"""

from __future__ import annotations

import re
from functools import partial

from server.text.segmentation import Span
from server.text.syntax.match import Match, Source, by_pattern
from server.text.syntax.templates import BRACES

Message = tuple[tuple[Span, ...], int]
"""The contents of the arms of a message, which Fluent calls variants, and its end."""
Braces = dict[int, tuple[int, int]]
"""For each brace the place of its partner, and how many are within each other between them."""
DEPTH = 40
"""Most braces within each other."""
_HEAD = re.compile(
    r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset\s*:\s*\d+\s*)?",
    re.IGNORECASE,
)
_ARM = re.compile(r"\s*(?:=\s*-?\d+|[^\s{}=,'#]+)\s*(?=\{)")
_END = re.compile(r"\s*\}")
_QUOTED = re.compile(r"''|'(?=[{}#|])(?:[^']|'')*+'?|[{}]")
_UNQUOTED = re.compile(r"[{}]")
_LITERAL = r'"(?:[^"\\\n]|\\.){0,200}+"'
_NAME = r"[A-Za-z](?:\w|-(?!>))*+"
PLACEABLE = rf"""\{{\s*+(?:{_LITERAL}|[$-]?{_NAME}(?:\.{_NAME})?(?:\s*+\((?:[^()"{{}}]|{_LITERAL}){{0,200}}+\))?)\s*+(?:->|\}})"""
"""A placeable of Fluent, as far as the arrow if it selects: a literal, a variable, a term or
message, a call."""
_PART = re.compile(PLACEABLE, re.IGNORECASE)
head = by_pattern(_HEAD.pattern, "message head")
quoted = by_pattern(rf"('{{1,2}})(?:{BRACES}|[{{}}#|]+)\1", "quoted")
"""Braces in quotes, which stand for themselves: '{0}', ''{0}''."""
apostrophe = by_pattern(
    r"(?:(?<=[^\W\d_])|(?<=[}>])(?=..s\b))(?:\\'|'')(?=[^\W\d_])", "apostrophe", "apostrophe"
)
"""A doubled apostrophe, or one with a backslash, between letters."""
_SELECTOR = re.compile(rf"{PLACEABLE}(?<=>)")
_BRACES = re.compile(rf"{PLACEABLE}|[{{}}]")
_KEY = r"\*?\[\s*+[\w.-]{1,100}+\s*+\]"
_FIRST_VARIANT = re.compile(rf"\s*+{_KEY}")
_VARIANT = re.compile(rf"\{{|(?<=\s){_KEY}")
_VARIANT_LINE = re.compile(rf"\{{|(?<=\n)[ \t]*+{_KEY}")


def message(source: Source, at: int) -> Match | None:
    """Returns the message or the placeable of Fluent at a brace. Some libraries know no quotes."""
    text, found = source.text, None
    if selector := _SELECTOR.match(text, at):
        found = _select(text, at, selector.end(), source.computed(_placeables))
    elif head := _HEAD.match(text, at):
        found = _read(text, at, head.end(), source.computed(_quoted))
        found = found or _read(text, at, head.end(), source.computed(_unquoted))
    if found:
        return Match(at, found[1], "message", "message", flows=found[0])
    part = _PART.match(text, at)
    return Match(at, part.end(), "word", "placeable") if part else None


def _read(text: str, start: int, position: int, braces: Braces) -> Message | None:
    if start not in braces:
        return None
    arms: list[Span] = []
    while (arm := _ARM.match(text, position)) and arm.end() in braces:
        position = braces[arm.end()][0] + 1
        arms.append((arm.end() + 1, position - 1))
    last = _END.match(text, position)
    if not arms or last is None:
        return None
    return tuple(arms) if braces[start][1] < DEPTH else (), last.end()


def _select(text: str, start: int, position: int, braces: Braces) -> Message | None:
    first = _FIRST_VARIANT.match(text, position)
    if start not in braces or first is None:
        return None
    variant = _VARIANT_LINE if "\n" in first[0] else _VARIANT
    end, depth = braces[start]
    arms: list[Span] = []
    begin = position = first.end()
    while found := variant.search(text, position, end):
        if found[0] == "{":
            position = braces[found.start()][0] + 1
        else:
            arms.append((begin, found.start()))
            begin = position = found.end()
    return (*arms, (begin, end)) if depth < DEPTH else (), end + 1


def _matched(text: str, pattern: re.Pattern[str]) -> Braces:
    opened: list[list[int]] = []
    matched: Braces = {}
    for found in pattern.finditer(text):
        if found[0][0] == "{":
            opened.append([found.start(), 0])
        if found[0][-1] == "}" and opened:
            start, depth = opened.pop()
            matched[start] = (found.end() - 1, depth)
            if opened:
                opened[-1][1] = max(opened[-1][1], depth + 1)
    return matched


_quoted, _unquoted, _placeables = [
    partial(_matched, pattern=pattern) for pattern in (_QUOTED, _UNQUOTED, _BRACES)
]
