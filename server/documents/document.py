"""The texts of a file, the function that writes the translated file, and the folder of a document
in progress."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from server.errors import InvalidRequest
from server.text.languages import script_of
from server.text.spans import edited
from server.text.syntax.html import parse
from server.text.tagged import Tagged
from server.translation.coded_text import decoded

if TYPE_CHECKING:  # its module imports numpy, which the process that reads documents does not need
    from server.translation.types import Format

UNIT_CHARACTERS = 2_000
"""Neighbouring texts of a document are joined up to this length if the format allows it."""
DEPTH_LIMIT = 100
"""Largest number of collections within each other in files of messages."""
NO_MEMORY = "The file needs more memory than this server has for one file; split it."
SAMPLE_CHARACTERS = 2_000
"""Number of characters for the detection of the language."""


class Document(NamedTuple):
    """The texts of a file in order, as the translator reads them. `write` takes a translation of
    each and returns the new file."""

    texts: tuple[str, ...]
    format: Format
    write: Callable[[Sequence[str]], bytes]


class Place(NamedTuple):
    """A text of a file from `start` to `end`, and the function that writes its translation
    there."""

    start: int
    end: int
    text: str
    write: Callable[[str], str]


def in_place(
    content: str,
    encode: Callable[[str], bytes],
    places: Sequence[Place],
    format: Format,
    others: Sequence[tuple[int, int, str]] = (),
) -> Document:
    """Returns a file in which only what is translated changes, and `others`: edits that the target
    language needs."""

    def write(translations: Sequence[str]) -> bytes:
        edits = [
            (place.start, place.end, place.write(new))
            for place, new in zip(places, translations, strict=True)
            if new != place.text
        ]
        return encode(edited(content, sorted([*edits, *others]))[0])

    return Document(tuple([place.text for place in places]), format, write)


class Workspace:
    """The files of one document in progress: the upload, its texts, their translations, and the
    translated file. A document that waits needs no memory."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.upload = self.folder / "upload"
        self.texts = self.folder / "texts"
        self.translations = self.folder / "translations"
        self.result = self.folder / "result"

    def remove(self) -> None:
        """Deletes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def add_lines(path: Path, texts: Iterable[str]) -> None:
    """Appends texts to a file of JSON strings, one per line."""
    with path.open("ab") as file:
        file.writelines(orjson.dumps(text) + b"\n" for text in texts)


def read_lines(path: Path) -> Iterator[str]:
    """Yields the texts of a file that `add_lines` has written."""
    with path.open("rb") as file:
        yield from map(orjson.loads, file)


def join_pieces(pieces: Iterable[str]) -> list[str]:
    """Joins neighbouring pieces up to UNIT_CHARACTERS. The result contains all pieces in order."""
    units: list[str] = []
    for piece in pieces:
        if units and len(units[-1]) + len(piece) <= UNIT_CHARACTERS:
            units[-1] += piece
        else:
            units.append(piece)
    return units


def check_depth(collections: Sequence[object]) -> None:
    """Raises InvalidRequest for more collections within each other than DEPTH_LIMIT."""
    if len(collections) > DEPTH_LIMIT:
        raise InvalidRequest(f"The file has more than {DEPTH_LIMIT} collections within each other.")


def has_words(text: str) -> bool:
    """Returns whether a text has a letter."""
    return any(script_of(character) for character in text)


def tagged_of(text: str, format: Format) -> Tagged:
    """Returns a text of a document with its codes, and no others."""
    return parse(text) if format == "html" else decoded(text) if format == "coded" else Tagged(text)


def sample(document: Document) -> str:
    """Returns text from the beginning of a document, without markup."""
    words = ""
    for text in document.texts:
        if len(words) <= SAMPLE_CHARACTERS:
            words += tagged_of(text[: 2 * SAMPLE_CHARACTERS], document.format).text + "\n"
    return words
