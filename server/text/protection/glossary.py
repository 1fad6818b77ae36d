"""Finds the terms of a glossary in a text.

A text is compared unit by unit: a unit is a word, a character of a script without spaces, or a punctuation mark. The
terms form a tree of units, so that the time of a search does not grow with their number. Normalization forms of Unicode,
white space and kinds of apostrophes and hyphens do not matter.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from server.text.segmentation import BREAKS, Span

Case = Literal["written", "initial", "upper"]
"""How a text writes a term: as the glossary does, with capital letters at the beginning of words, or in capitals."""

_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957"
    "\u0962\u0963\u0980-\u0983\u09bc-\u09d7\u0a01-\u0a03\u0a3c-\u0a4d\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57"
    "\u0b82\u0bbe-\u0bd7\u0c00-\u0c04\u0c3e-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d57\u0d81-\u0ddf"
)
"""Marks of the larger alphabets, which belong to the letter before them; `\\w` matches only letters."""
_NO_SPACES = "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts that are written without spaces between words."""
NO_SPACES = re.compile(f"[{_NO_SPACES}]")
_UNIT = re.compile(rf"\s*(?:[{_NO_SPACES}]|(?:[^\W{_NO_SPACES}][{_MARKS}]*)+|\S)")
_SAME = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u2010": "-", "\u2011": "-", "\u00ad": None})


@dataclass(frozen=True, slots=True)
class Entry:
    """A term and its translation. If not `exact`, the translation may be inflected."""

    source: str
    target: str
    exact: bool = True


@dataclass(frozen=True, slots=True)
class TermMatch:
    """A term at [start, end) of a text."""

    start: int
    end: int
    entry: Entry
    case: Case = "written"


@dataclass(slots=True)
class _Node:
    entries: list[Entry] = field(default_factory=list)
    children: dict[str, _Node] = field(default_factory=dict)


class TermIndex:
    """The terms of one language pair. With `any_case` a term is found in any case; otherwise as it is written in the
    glossary, with capital letters at the beginning of words, or in capitals."""

    def __init__(self, entries: Iterable[Entry], any_case: bool = False) -> None:
        self.entries = tuple(entries)
        self.any_case = any_case
        self._root = _Node()
        for entry in self.entries:
            node = self._root
            for _, _, key in _units(entry.source.strip()):
                node = node.children.setdefault(key, _Node())
            if node is not self._root:
                node.entries.append(entry)

    @cached_property
    def translations(self) -> TermIndex:
        """The index of the translations, each with itself as its translation."""
        return TermIndex([Entry(entry.target, entry.target, entry.exact) for entry in self.entries], any_case=True)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all terms, for the keys of the result cache."""
        return hashlib.sha256(repr((self.entries, self.any_case)).encode()).hexdigest()

    def find(self, text: str, excluded: Sequence[Span] = (), lines: bool = False) -> list[TermMatch]:
        """Returns the terms of a text in order, the longest at each place. They do not overlap. A term may contain an
        `excluded` span, and does not overlap one in another way. With `lines` no term contains a line end."""
        units = _units(text) if self._root.children else []
        matches: list[TermMatch] = []
        first = 0
        while first < len(units):
            start, after = units[first][0], first + 1
            node, best = self._root.children.get(units[first][2].lstrip()), None
            for number in range(first, len(units)):
                if number > first:
                    node = node.children.get(units[number][2]) if node else None
                if node is None:
                    break
                end = units[number][1]
                if (
                    node.entries
                    and not any(low < end and start < high and (low < start or end < high) for low, high in excluded)
                    and not (lines and BREAKS.search(text, start, end))
                    and (match := self._match(text, start, end, node.entries))
                ):
                    best, after = match, number + 1
            first = after
            matches += [best] if best else []
        return matches

    def _match(self, text: str, start: int, end: int, entries: Sequence[Entry]) -> TermMatch | None:
        """Returns the match of the entry whose case fits best."""
        written = _plain(text[start:end])
        for case in ("written", "initial", "upper"):
            for entry in entries:
                if _case(written, _plain(entry.source)) == case:
                    return TermMatch(start, end, entry, case)
        return TermMatch(start, end, entries[0]) if self.any_case else None


def term_key(term: str) -> str:
    """Returns a text that is equal for two spellings of a term that differ in case and normalization only."""
    return _plain(term).casefold()


def _case(written: str, term: str) -> Case | None:
    if written == term:
        return "written"
    if written == term[:1].upper() + term[1:] or written == " ".join([w[:1].upper() + w[1:] for w in term.split(" ")]):
        return "initial"
    return "upper" if written == term.upper() else None


def _units(text: str) -> list[tuple[int, int, str]]:
    """Returns start, end and key of each unit. A key begins with a space if there is white space before the unit."""
    units = []
    for found in _UNIT.finditer(text):
        unit = found[0].lstrip()
        space = " " if len(unit) < len(found[0]) else ""
        units.append((found.end() - len(unit), found.end(), space + _plain(unit).casefold()))
    return units


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text.translate(_SAME)).split())
