"""Scans the escape sequences of string literals (C: ISO C 5.1.1.2 and 6.4.4.4, JSON: RFC 8259, Android's string resources), and
the control sequences of terminals (ECMA-48, 5.4)."""

from __future__ import annotations

import re

from server.text.syntax.match import NO_FLAG, Match, Source, by_pattern

_CLOSING = ".,;:!?)]}\"'»”’…"
_RUN = re.compile(r"\S*")
line_end = by_pattern(r"\\[nrt](?![a-z]*\{|\[\d)", "break", "line end", NO_FLAG)
escape = by_pattern(r"\\(?:[uU][0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\"'\\]|[vf0](?!\w))", "point", "escape", NO_FLAG)
control = by_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]", "point", "control")


def backslash(source: Source, at: int) -> Match | None:
    """Returns the word around a backslash: A\\B, \\*, C:\\Temp, \\s[3]."""
    text, start = source.text, at
    while start > source.done and not text[start - 1].isspace():
        start -= 1
    end = at + 1
    if end < len(text) and not text[end].isspace():
        end += 1
    run = _RUN.match(text, end)
    end += len(run[0].rstrip(_CLOSING)) if run else 0
    end += text.startswith("}", end) and text.count("{", start, end) > text.count("}", start, end)
    return Match(start, end, "word", "backslash")
