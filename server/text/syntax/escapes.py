"""Scans escape sequences of string literals (ISO C 6.4.4.4, RFC 8259, Android's string resources),
and controls of terminals (ECMA-48, 5.4) and of bidirectional text (UAX #9, 2)."""

from __future__ import annotations

from server.text.characters import grown
from server.text.syntax.match import NO_FLAG, Match, Role, Source, by_pattern
from server.text.vocabulary import OPENING, core_end

_LONGEST = 500
line_end = by_pattern(
    r"(?<!\b[A-Za-z]:)\\(?:[nrt]|N(?:(?<=\W\\N)|(?![a-z])))(?![a-z]*\{|\[\d|(?<=[\"“„«'`]..)[\"”“»'`])"
    r"|(?<!\S)\"{3}(?=\w)|(?<=[\w.!?])\"{3}(?!\S)",
    "line end",
    "break",
    NO_FLAG,
)
escape = by_pattern(
    r"\\(?:[uU][0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|(?<!\S\\)[\[*_#~](?=[^\W\d_]{2})|(?<=[\w.!?]\\)[\]*_~](?!\w)|\\(?![\w.-]+\\)|[vf0](?!\w)|(?<![\w:\\]\\)[a-z](?=[A-ZÀ-Þ][a-zà-ÿ]))",
    "escape",
    "point",
    NO_FLAG,
)
quote = by_pattern(r"\\[\"']", "strong", "open")
BIDI_OPENING, BIDI_CLOSING = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068", "\u202c\u2069"
BIDI = f"{BIDI_OPENING}{BIDI_CLOSING}\u061c\u200e\u200f"
control = by_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]", "control", "point")


def direction(source: Source, at: int) -> Match | None:
    """Returns a control of the direction of text."""
    sign = source.text[at]
    role: Role = "open" if sign in BIDI_OPENING else "close" if sign in BIDI_CLOSING else "point"
    return Match(at, at + 1, role, "direction", "isolate" if sign >= "\u2066" else "embedding")


def backslash(source: Source, at: int) -> Match | None:
    """Returns the word around a backslash: \\*, C:\\Temp, \\s[3]."""
    text = source.text
    low, high = grown(
        text,
        at,
        at + 1,
        lambda sign: not sign.isspace(),
        max(source.done, at - _LONGEST),
        at + _LONGEST,
    )
    low = min(at, high - len(text[low:high].lstrip(OPENING)))
    return Match(low, max(min(high, at + 2), core_end(text, low, high)), "word", "backslash")
