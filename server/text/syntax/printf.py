"""Scans conversion specifications: printf of C (ISO C 7.21.6.1) and Objective-C, Java's Formatter,
Python's %(name)s, Ruby's %<name>s, Qt's %1, %L1 and %n, and the %NAME% of Windows and Symfony."""

from __future__ import annotations

import re

from server.text.syntax.match import Match, Role, Source

_FORMAT = r"%(?:\d+\$)?(?:[-+0#,]|'(?=[\d.]*[a-z](?!\w))|'.(?=\d))*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|q|j|z|t)?"
_NUMBER = re.compile(rf"{_FORMAT}[diuxfeg](?!\w)|%n(?!\w)", re.IGNORECASE)
_WORD = re.compile(
    r"%\(\w+\)[-+0#]*\d*(?:\.\d+)?[a-z]|%<[\w.]+>[-+0#]*[\d.]*[a-z]"
    rf"|%[a-z_][\w.-]+(?!{_FORMAT}[a-z@])%(?!\w)|%[a-z_]\w*+|{_FORMAT}(?:[a-z]{{1,2}}(?!\w)|[sd]\w*+|@)|%L?\d{{1,2}}(?!\d)|%%\w*",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"(?<![^\W\d])\d[ \u00a0\u202f-]$")
_SUFFIX = re.compile(r"%-?(?:[^\W\d_]{2,}(?![%\w])|[^\W\d_]['’])")


def specification(source: Source, at: int) -> Match | None:
    """Returns the specification at a "%", unless it is the sign of a number: 50%, 100 %ig, 5
    %d'intérêts."""
    text = source.text
    if at and text[at - 1].isdecimal():
        return Match(at, at + 2, "word", "printf") if text.startswith("%%", at) else None
    if found := _NUMBER.match(text, at):
        role: Role = "number"
    elif found := _WORD.match(text, at):
        role = "word"
    if found is None or (_SUFFIX.match(text, at) and _AMOUNT.search(text, max(0, at - 2), at)):
        return None
    return Match(at, found.end(), role, "printf")
