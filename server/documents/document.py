"""A file between reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from server.text.unicode_scripts import script_of
from server.translation.types import Format

UNIT_CHARACTERS = 2_000
"""Texts of a document are gathered to about this length where they may be."""


@dataclass(frozen=True, slots=True)
class Document:
    """What is to be translated in a file, in order. `write` takes as many translations and returns the new file."""

    texts: tuple[str, ...]
    format: Format
    write: Callable[[Sequence[str]], bytes]

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))


def gathered(pieces: Iterable[str]) -> list[str]:
    """Neighbours joined up to UNIT_CHARACTERS; together they are the pieces."""
    units: list[str] = []
    for piece in pieces:
        if units and len(units[-1]) + len(piece) <= UNIT_CHARACTERS:
            units[-1] += piece
        else:
            units.append(piece)
    return units


def has_words(text: str) -> bool:
    """Whether there is any letter in a text."""
    return any(script_of(character) for character in text)
