"""A document as its texts and the function that writes the translated file, and the folder of a
document in progress."""

from __future__ import annotations

import re
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
"""Deepest nesting of collections in files of messages."""
NO_MEMORY = "The file needs more memory than this server has for one file; split it."
SAMPLE_CHARACTERS = 2_000
"""Number of characters for the detection of the language."""
ACCESS_KEY = re.compile(
    r"(?<![\w&_])(?:&&?|_)[^\W\d_](?!\w{1,7};)|(?<=[^\W\d_])&[a-z](?!\w{1,7};)|(?<=\b[A-Z])_[a-z]|(?<=\b[A-Z][a-z])_[a-z]"
)
"""The mark of an access key before a letter: `&Save`, `&&Save`, `_Save`, `E_xit`."""
LEADING_KEY = re.compile(r"(?<![\w&_])&&?[^\W\d_](?!\w{1,7};)")
"""The mark at the beginning of a word, for files that do not only have labels."""
LONGEST_LABEL = 60


class Document(NamedTuple):
    """The texts of a file in order, as the translator reads them. `write` returns the translated
    file, given the translation of each text."""

    texts: tuple[str, ...]
    format: Format
    write: Callable[[Sequence[str]], bytes]


class Place(NamedTuple):
    """A text of a file from `start` to `end`. `write` returns its translation as it is written
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
    """Returns a file of which only the translated places change, and `others`: edits for the target
    language."""

    def write(translations: Sequence[str]) -> bytes:
        edits = [
            (place.start, place.end, place.write(new))
            for place, new in zip(places, translations, strict=True)
            if new != place.text
        ]
        return encode(edited(content, sorted([*edits, *others]))[0])

    return Document(tuple([place.text for place in places]), format, write)


def label(text: str, mark: re.Pattern[str] = LEADING_KEY) -> tuple[str, Callable[[str], str]]:
    """Returns a label of a program without the mark of its access key (`&Save` -> `Save`), and the
    function that adds the mark to its translation: before the same letter, first at the beginning
    of a word, else before the first letter."""
    marks = mark.findall(text) if len(text) <= LONGEST_LABEL else []
    if len(marks) != 1:
        return text, str
    [marked] = marks
    letter, own = re.escape(marked[-1]), text.replace(marked, marked[-1], 1)

    def written(new: str) -> str:
        matches = (
            re.search(pattern, new, re.IGNORECASE)
            for pattern in (rf"\b{letter}", letter, r"\w", "")
        )
        start = next(filter(None, matches)).start()
        return text if new == own else new[:start] + marked[:-1] + new[start:]

    return own, written


def labelled(start: int, end: int, text: str, quoted: Callable[[str], str]) -> Place:
    """Returns the place of a label, which `quoted` writes."""
    own, written = label(text)
    return Place(start, end, own, lambda new: quoted(written(new)))


class Workspace:
    """The files of a document in progress: the upload, its texts, their translations, and the
    translated file. A waiting document takes no memory."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.upload = self.folder / "upload"
        self.texts = self.folder / "texts"
        self.translations = self.folder / "translations"
        self.result = self.folder / "result"

    def remove(self) -> None:
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
    """Joins neighbouring pieces up to UNIT_CHARACTERS."""
    units: list[str] = []
    for piece in pieces:
        if units and len(units[-1]) + len(piece) <= UNIT_CHARACTERS:
            units[-1] += piece
        else:
            units.append(piece)
    return units


def check_depth(collections: Sequence[object]) -> None:
    """Raises InvalidRequest for more than DEPTH_LIMIT open collections."""
    if len(collections) > DEPTH_LIMIT:
        raise InvalidRequest(f"The file has more than {DEPTH_LIMIT} collections within each other.")


def has_words(text: str) -> bool:
    """Returns whether a text has a letter."""
    return any(script_of(character) for character in text)


def tagged_of(text: str, format: Format) -> Tagged:
    """Returns a text of a document with its codes."""
    return parse(text) if format == "html" else decoded(text) if format == "coded" else Tagged(text)


def sample(document: Document) -> str:
    """Returns text from the beginning of a document, without markup."""
    words = ""
    for text in document.texts:
        if len(words) > SAMPLE_CHARACTERS:
            break
        words += tagged_of(text[: 2 * SAMPLE_CHARACTERS], document.format).text + "\n"
    return words
