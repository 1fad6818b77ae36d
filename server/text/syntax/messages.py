"""Parses ICU MessageFormat and Fluent: the messages of a text, whose arms are translated on their own, at any depth up to
a bound.

Grammar of ICU: https://unicode-org.github.io/icu/userguide/format_parse/messages/ (`{count, plural, offset:1 =0 {none}
other {# files}}`). An apostrophe before a brace, `#` or `|` quotes up to the next one; two of them stand for one.
Grammar of Fluent: https://github.com/projectfluent/fluent/blob/main/spec/fluent.ebnf (`{ $count -> [one] a file *[other]
{ $count } files }`). Variants that it has on lines of their own may also follow each other on one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from server.text.segmentation import Span
from server.text.syntax.match import Match, Source, by_pattern
from server.text.syntax.templates import BRACES

DEPTH = 40
"""Most braces within each other. The arms of a deeper message are not translated."""
_HEAD = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset\s*:\s*\d+\s*)?", re.IGNORECASE)
_ARM = re.compile(r"\s*(?:=\s*-?\d+|[^\s{}=,'#]+)\s*(?=\{)")
_END = re.compile(r"\s*\}")
_QUOTED = re.compile(r"''|'(?=[{}#|])(?:[^']|'')*+'?|[{}]")
_UNQUOTED = re.compile(r"[{}]")
_LITERAL = r'"(?:[^"\\\n]|\\.){0,200}+"'
_NAME = r"[A-Za-z](?:\w|-(?!>))*+"
PLACEABLE = rf"""\{{\s*+(?:{_LITERAL}|[$-]?{_NAME}(?:\.{_NAME})?(?:\s*+\((?:[^()"{{}}]|{_LITERAL}){{0,200}}+\))?)\s*+(?:->|\}})"""
"""A placeable of Fluent, as far as the arrow if it selects: a literal, a variable, a term or message, a call."""
_PART = re.compile(PLACEABLE, re.IGNORECASE)
head = by_pattern(_HEAD.pattern, "word", "message head")
"""The head of a message that is not complete."""
quoted = by_pattern(rf"('{{1,2}})(?:{BRACES}|[{{}}#|]+)\1", "word", "quoted")
"""Braces in quotes, which stand for themselves: '{0}', ''{0}''."""
apostrophe = by_pattern(r"(?:(?<=[^\W\d_])|(?<=[}>])(?=..s\b))(?:\\'|'')(?=[^\W\d_])", "apostrophe", "apostrophe")
"""A doubled apostrophe, or one with a backslash, between letters."""
_SELECTOR = re.compile(rf"{PLACEABLE}(?<=>)")
_BRACES = re.compile(rf"{PLACEABLE}|[{{}}]")
_KEY = r"\*?\[\s*+[\w.-]{1,100}+\s*+\]"
_FIRST_VARIANT = re.compile(rf"\s*+{_KEY}")
_VARIANT = re.compile(rf"\{{|(?<=\s){_KEY}")
_VARIANT_LINE = re.compile(rf"\{{|(?<=\n)[ \t]*+{_KEY}")


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a text: the contents of its arms, which Fluent calls variants, and its end."""

    arms: tuple[Span, ...]
    end: int


def message(source: Source, at: int) -> Match | None:
    """Returns the message or the placeable of Fluent at a brace."""
    if found := source.computed(MessageParser).parse(at):
        return Match(at, found.end, "message", "message", flows=found.arms)
    part = _PART.match(source.text, at)
    return Match(at, part.end(), "word", "placeable") if part else None


class MessageParser:
    """Parses the messages of one text. Its braces are matched once, so that all messages together take linear time."""

    def __init__(self, text: str) -> None:
        self._text = text

    def parse(self, start: int) -> Message | None:
        """Returns the message that begins at a position, or None if none does or it is not complete. Some libraries know
        no quotes: without them a message is read that is not complete with them."""
        if selector := _SELECTOR.match(self._text, start):
            return self._select(start, selector.end())
        head = _HEAD.match(self._text, start)
        if head is None:
            return None
        return self._read(start, head.end(), self._quoted) or self._read(start, head.end(), self._unquoted)

    def _read(self, start: int, position: int, braces: dict[int, tuple[int, int]]) -> Message | None:
        if start not in braces:
            return None
        arms: list[Span] = []
        while (arm := _ARM.match(self._text, position)) and arm.end() in braces:
            position = braces[arm.end()][0] + 1
            arms.append((arm.end() + 1, position - 1))
        last = _END.match(self._text, position)
        if not arms or last is None:
            return None
        return Message(tuple(arms) if braces[start][1] < DEPTH else (), last.end())

    def _select(self, start: int, position: int) -> Message | None:
        """Returns the select expression of Fluent at `start`, whose variants begin at `position`."""
        text, braces = self._text, self._placeables
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
        return Message((*arms, (begin, end)) if depth < DEPTH else (), end + 1)

    @cached_property
    def _quoted(self) -> dict[int, tuple[int, int]]:
        return _matched(self._text, _QUOTED)

    @cached_property
    def _unquoted(self) -> dict[int, tuple[int, int]]:
        return _matched(self._text, _UNQUOTED)

    @cached_property
    def _placeables(self) -> dict[int, tuple[int, int]]:
        return _matched(self._text, _BRACES)


def _matched(text: str, pattern: re.Pattern[str]) -> dict[int, tuple[int, int]]:
    """Returns for each brace that opens another the place of the other, and how many are within each other between them."""
    opened: list[list[int]] = []
    matched: dict[int, tuple[int, int]] = {}
    for found in pattern.finditer(text):
        if found[0][0] == "{":
            opened.append([found.start(), 0])
        if found[0][-1] == "}" and opened:
            start, depth = opened.pop()
            matched[start] = (found.end() - 1, depth)
            if opened:
                opened[-1][1] = max(opened[-1][1], depth + 1)
    return matched
