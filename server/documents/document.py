"""The texts of a file, and the function that writes the translated file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from server.text.unicode_scripts import script_of
from server.translation.types import Format

UNIT_CHARACTERS = 2_000
"""Neighbouring texts of a document are joined up to this length if the format allows it."""


@dataclass(frozen=True, slots=True)
class Document:
    """The texts of a file in order. `write` takes a translation of each text and returns the new file."""

    texts: tuple[str, ...]
    format: Format
    write: Callable[[Sequence[str]], bytes]

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))


def join_pieces(pieces: Iterable[str]) -> list[str]:
    """Joins neighbouring pieces up to UNIT_CHARACTERS. The result contains all pieces in order."""
    units: list[str] = []
    for piece in pieces:
        if units and len(units[-1]) + len(piece) <= UNIT_CHARACTERS:
            units[-1] += piece
        else:
            units.append(piece)
    return units


def has_words(text: str) -> bool:
    """Returns whether a text has a letter."""
    return any(script_of(character) for character in text)
