"""Spans of a text as marks in it, ⟦ and ⟧, and the codes of a plain text as matches."""

from __future__ import annotations

from collections.abc import Iterable

from server.text.spans import Span
from server.text.syntax.match import Match, Role
from server.text.syntax.plain import scan
from server.text.tagged import Code, Tagged


def unmarked(row: str) -> str:
    return row.replace("⟦", "").replace("⟧", "")


def marked(text: str, spans: Iterable[Span]) -> str:
    """Returns a text with marks around sorted spans."""
    parts, done = "", 0
    for start, end in spans:
        parts += f"{text[done:start]}⟦{text[start:end]}⟧"
        done = end
    return parts + text[done:]


def marked_codes(row: str) -> str:
    """Returns a row with marks around its codes."""
    text = unmarked(row)
    return marked(text, [code[:2] for code in scan(Tagged(text)).codes])


def matches(text: str, kept: tuple[str, ...] = ()) -> list[Match]:
    """Returns what every translation of a text contains unchanged, in order. The words of `kept`
    are further ones."""
    return [_match(code) for code in scan(Tagged(text), kept).codes]


def _match(code: Code) -> Match:
    role: Role = "point"
    if code.role != "ph":
        role = "open" if code.role == "sc" else "close"
    elif code.splits:
        role = "break"
    elif code.message is not None:
        role = "message"
    elif code.kind == "apostrophe":
        role = "apostrophe"
    elif code.word:
        role = "number" if code.word == "number" else "word"
    flows = tuple([(start + code.start, end + code.start) for start, end in code.flows])
    return Match(code.start, code.end, role, code.kind, str(code.pair or ""), flows)
