"""Matches of scanners, and the text that scanners share.

A scanner returns the match at a sign of its syntax. The match may begin before the sign (an e-mail
address), but not before the end of the last accepted match."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeVar, cast
from unicodedata import category

from server.text.spans import Span

T = TypeVar("T")
NO_FLAG = re.RegexFlag(0)
MARKS = (
    "".join([chr(code) for code in range(0x300, 0xFE30) if category(chr(code))[0] == "M"])
    + "\u200c\u200d"
)
"""Marks of letters, which `\\w` does not match."""
LATIN = "A-Za-z\u00c0-\u024f"
"""Letters of names in programs."""
Role = Literal["word", "number", "point", "open", "close", "break", "message", "apostrophe"]


class Match(NamedTuple):
    """A part of a text that every translation contains once and unchanged.

    Roles: "word" and "number" stand for a word, a "point" is between words. "open" and "close"
    surround words, and partners have the same `name`. A "break" separates sentences. The `flows` of
    a "message" are translated on their own. An "apostrophe" is doubled or has a backslash (it''s).
    """

    start: int
    end: int
    role: Role
    kind: str = ""
    name: str = ""
    flows: tuple[Span, ...] = ()


class Source:
    """A text that is scanned."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.done = 0
        """End of the last accepted match."""
        self._found: dict[str, Span] = {}
        self._computed: dict[object, object] = {}

    def find(self, part: str, start: int) -> int:
        """Returns the first position of a part at or after `start`, or -1."""
        since, place = self._found.get(part, (start + 1, 0))
        if since > start or (0 <= place < start):
            since, place = start, self.text.find(part, start)
            self._found[part] = since, place
        return place

    def computed(self, function: Callable[[str], T]) -> T:
        """Returns the result of a function of the whole text, which is called once."""
        if function not in self._computed:
            self._computed[function] = function(self.text)
        return cast(T, self._computed[function])


class Opened(Generic[T]):
    """Open elements with a value each. An end closes the last start of its name, and drops the starts
    after that."""

    def __init__(self) -> None:
        self._opened: list[tuple[object, T]] = []
        self._names: dict[object, int] = {}

    def add(self, name: object, value: T) -> None:
        self._opened.append((name, value))
        self._names[name] = self._names.get(name, 0) + 1

    def close(self, name: object) -> T | None:
        """Returns the value of the start with this name, or None."""
        while self._names.get(name):
            other, value = self._opened.pop()
            self._names[other] -= 1
            if other == name:
                return value
        return None


Scanner = Callable[[Source, int], Match | None]


def by_pattern(
    pattern: str, kind: str, role: Role = "word", flags: re.RegexFlag = re.IGNORECASE
) -> Scanner:
    """Returns a scanner that matches a regular expression at its sign."""
    match = re.compile(pattern, flags).match

    def scan(source: Source, at: int) -> Match | None:
        found = match(source.text, at)
        return Match(at, found.end(), role, kind) if found else None

    return scan


def around(before: str, pattern: str, kind: str, role: Role = "word") -> Scanner:
    """Returns a scanner whose match begins up to 100 characters before its sign, with `before`."""
    start, match = re.compile(rf"(?:{before})$"), re.compile(pattern).match

    def scan(source: Source, at: int) -> Match | None:
        begin = start.search(source.text, max(source.done, at - 100), at)
        found = match(source.text, begin.start()) if begin else None
        return Match(*found.span(), role, kind) if found and found.end() > at else None

    return scan
