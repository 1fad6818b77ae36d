"""Reads ICU messages: `{count, plural, one {# file} other {# files}}`. Only the text of the arms is translated."""

from __future__ import annotations

import re

from server.text.segmentation import Span

_HEAD = re.compile(r"\{\s*[\w.-]+\s*,\s*(plural|select|selectordinal)\s*,\s*(?:offset:\d+\s*)?")
_ARM = re.compile(r"\s*(?:=\d+|[\w.-]+)\s*\{")
_END = re.compile(r"\s*\}")
_BRACE = re.compile(r"[{}]")
ARM_LIMIT = 5_000
"""Longest arm that is read, in characters, so that broken messages take linear time."""


def read_message(text: str, start: int) -> tuple[list[Span], int] | None:
    """Returns the contents of the arms and the end of the message that begins at `start`; None if it is not a complete
    message."""
    head = _HEAD.match(text, start)
    if head is None:
        return None
    arms: list[Span] = []
    position = head.end()
    while arm := _ARM.match(text, position):
        end = _closing_brace(text, arm.end())
        if end < 0:
            return None
        arms.append((arm.end(), end))
        position = end + 1
    last = _END.match(text, position)
    return (arms, last.end()) if arms and last else None


def _closing_brace(text: str, position: int) -> int:
    """Returns the position of the brace that closes the one before `position`, or -1."""
    depth = 1
    for brace in _BRACE.finditer(text, position, position + ARM_LIMIT):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return -1
