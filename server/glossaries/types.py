"""Glossaries as plain data, their bounds, and their entries as TSV and CSV."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from server.errors import InvalidRequest, PayloadTooLarge
from server.text.languages import primary_subtag

NAME_CHARACTERS = 200
TERM_CHARACTERS = 300
ENTRIES = 10_000
"""Most entries of a glossary, over all its dictionaries."""
DICTIONARIES = 100
"""Most dictionaries of a glossary."""
GLOSSARIES = 100
"""Most glossaries of an owner."""
CHARACTERS = 10_000_000
"""Most characters of all terms of an owner."""


@dataclass(frozen=True, slots=True)
class DictionaryInfo:
    """A dictionary without its entries. The languages are codes without region. Terms and
    translations may be inflected unless `exact`. `characters` is the length of all terms."""

    source: str
    target: str
    count: int
    characters: int
    exact: bool = True
    revision: int = 0
    """Changes with the entries."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The terms of a language pair with their translations. Raises InvalidRequest for two equal
    languages."""

    source: str
    target: str
    entries: Mapping[str, str]
    exact: bool = True

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise InvalidRequest("The two languages of a dictionary must be different.")

    def info(self) -> DictionaryInfo:
        """Returns the description, with a new revision."""
        characters = sum(
            [len(term) + len(translation) for term, translation in self.entries.items()]
        )
        revision = secrets.randbits(53)
        return DictionaryInfo(
            self.source, self.target, len(self.entries), characters, self.exact, revision
        )


@dataclass(frozen=True, slots=True)
class Glossary:
    """A glossary without its entries. `owner` is the id of a key, or "" for everyone. `created` is
    in seconds since the epoch."""

    id: str
    owner: str
    name: str
    created: float
    dictionaries: tuple[DictionaryInfo, ...] = ()

    def info(self, source: str, target: str) -> DictionaryInfo | None:
        """Returns the dictionary of a language pair, or None."""
        return next(
            (info for info in self.dictionaries if (info.source, info.target) == (source, target)),
            None,
        )


def base_language(code: str) -> str:
    """Returns a language code without region or script."""
    return primary_subtag(code.strip())


def check_name(name: str) -> str:
    """Returns the stripped name. Raises InvalidRequest if it is empty or too long."""
    if not (name := name.strip()):
        raise InvalidRequest("The name of a glossary must not be empty.")
    if len(name) > NAME_CHARACTERS:
        raise InvalidRequest(
            f"The name of a glossary must have at most {NAME_CHARACTERS} characters."
        )
    return name


def check_entries(entries: Mapping[str, str]) -> None:
    """Raises InvalidRequest or PayloadTooLarge for entries beyond the bounds."""
    if not entries:
        raise InvalidRequest("A dictionary of a glossary must have at least one entry.")
    if len(entries) > ENTRIES:
        raise PayloadTooLarge(
            f"{len(entries):,} entries are over the limit of {ENTRIES:,} for a glossary."
        )
    for number, pair in enumerate(entries.items(), start=1):
        for term in pair:
            if not term.strip() or len(term) > TERM_CHARACTERS:
                raise InvalidRequest(
                    f"Entry {number}: a term must have 1 to {TERM_CHARACTERS} characters."
                )
            if any(character < " " for character in term):
                raise InvalidRequest(f"Entry {number}: a term must not contain control characters.")


EntriesFormat = Literal["tsv", "csv"]
MEDIA_TYPES: dict[EntriesFormat, str] = {"tsv": "text/tab-separated-values", "csv": "text/csv"}


def read_entries(text: str, format: EntriesFormat = "tsv") -> dict[str, str]:
    """Returns the entries of a file: a term and its translation a line, separated by a tab, or in
    CSV by a comma. Two further columns of CSV, the languages, are ignored. Raises InvalidRequest
    with the line."""
    text = text.removeprefix("\ufeff")
    entries: dict[str, str] = {}
    for number, row in _rows(text, format):
        if len(row) != 2 and (format == "tsv" or len(row) != 4):
            separator = "tab" if format == "tsv" else "comma"
            raise InvalidRequest(
                f"Line {number} of the entries must be a term, a {separator} and its translation."
            )
        term, translation = row[0].strip(), row[1].strip()
        if not term or not translation:
            raise InvalidRequest(f"Line {number} of the entries has an empty term.")
        if term in entries:
            raise InvalidRequest(f"Line {number} of the entries repeats a term.")
        entries[term] = translation
    return entries


def write_entries(entries: Mapping[str, str], format: EntriesFormat = "tsv") -> str:
    if format == "tsv":
        return "\n".join([f"{term}\t{translation}" for term, translation in entries.items()])
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(entries.items())
    return file.getvalue()


def _rows(text: str, format: EntriesFormat) -> Iterable[tuple[int, list[str]]]:
    if format == "tsv":
        lines = enumerate(io.StringIO(text, newline=None), start=1)
        return [(number, line.rstrip("\n").split("\t")) for number, line in lines if line.strip()]
    try:
        file = io.StringIO(text, newline="")
        return [
            (number, row)
            for number, row in enumerate(csv.reader(file, strict=True), start=1)
            if row
        ]
    except csv.Error as error:
        raise InvalidRequest(f"The entries are not CSV: {error}.") from None
