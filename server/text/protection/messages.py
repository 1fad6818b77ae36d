"""Parses ICU MessageFormat: the messages of a text, whose arms are translated on their own, at any depth up to a bound.

Grammar: https://unicode-org.github.io/icu/userguide/format_parse/messages/ (`{count, plural, offset:1 =0 {none} other
{# files}}`). An apostrophe before a brace, `#` or `|` quotes up to the next one; two of them stand for one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from server.text.segmentation import Span

DEPTH = 40
"""Most braces within each other. The arms of a deeper message are not translated."""
_HEAD = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset\s*:\s*\d+\s*)?", re.IGNORECASE)
_ARM = re.compile(r"\s*(?:=\s*-?\d+|[^\s{}=,'#]+)\s*(?=\{)")
_END = re.compile(r"\s*\}")
_QUOTED = re.compile(r"''|'(?=[{}#|])(?:[^']|'')*+'?|[{}]")
_UNQUOTED = re.compile(r"[{}]")


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a text: the contents of its arms, and its end."""

    arms: tuple[Span, ...]
    end: int


class MessageParser:
    """Parses the messages of one text. Its braces are matched once, so that all messages together take linear time."""

    def __init__(self, text: str) -> None:
        self._text = text

    def parse(self, start: int) -> Message | None:
        """Returns the message that begins at a position, or None if none does or it is not complete. Some libraries know
        no quotes: without them a message is read that is not complete with them."""
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

    @cached_property
    def _quoted(self) -> dict[int, tuple[int, int]]:
        return _matched(self._text, _QUOTED)

    @cached_property
    def _unquoted(self) -> dict[int, tuple[int, int]]:
        return _matched(self._text, _UNQUOTED)


def _matched(text: str, pattern: re.Pattern[str]) -> dict[int, tuple[int, int]]:
    """Returns for each brace that opens another the place of the other, and how many are within each other between them."""
    opened: list[list[int]] = []
    matched: dict[int, tuple[int, int]] = {}
    for found in pattern.finditer(text):
        if found[0] == "{":
            opened.append([found.start(), 0])
        elif found[0] == "}" and opened:
            start, depth = opened.pop()
            matched[start] = (found.start(), depth)
            if opened:
                opened[-1][1] = max(opened[-1][1], depth + 1)
    return matched
