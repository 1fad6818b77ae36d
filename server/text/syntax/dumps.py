"""Scans dumps of bytes, as xxd, hexdump -C and debuggers write them: an offset, groups of 1, 2 or 4 bytes, their characters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from server.text.syntax.match import Match

_GROUP = r"[\da-f]{2}(?:[\da-f]{2}|[\da-f]{6})?(?![^\s-])"
_LINE = re.compile(
    rf"^[ \t]*+(?:0x)?[\da-f]{{4,16}}:?[ \t]++{_GROUP}(?:[ -]{{1,2}}{_GROUP})++(?:(?:[ \t]{{2}}|[ \t]*\|).{{0,100}})?$",
    re.MULTILINE | re.IGNORECASE,
)
_BYTES = re.compile(r"(?<![\w-])(?:(?:[\da-f]{2}){1,2}  ?){3,}(?:[\da-f]{2}){1,2}(?![\w-])", re.IGNORECASE)


def lines(text: str) -> Iterator[Match]:
    """Yields the lines of dumps. Numbers alone are none."""
    lines = _LINE.finditer(text) if "\n" in text else (_LINE.match(text),)
    for found in lines:
        if found and not "".join(found[0].split()).isdigit():
            yield Match(*found.span(), "word", "dump")


def sequences(text: str) -> Iterator[Match]:
    """Yields bytes within words, de ad 00 ff."""
    for found in _BYTES.finditer(text):
        groups = {*found[0].split()}
        if any(not each.isdigit() and not each.isalpha() for each in groups) or sum(map(str.isalpha, groups)) > 2:
            yield Match(*found.span(), "word", "code")
