"""Entries of a glossary as TSV and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Literal

from server.errors import InvalidRequest

EntriesFormat = Literal["tsv", "csv"]
MEDIA_TYPES: dict[EntriesFormat, str] = {"tsv": "text/tab-separated-values", "csv": "text/csv"}


def read_entries(text: str, format: EntriesFormat = "tsv") -> dict[str, str]:
    """Returns the entries of a file: one a line, term and translation separated by a tab, or in CSV by a comma. CSV may
    have two further columns with the languages, which are ignored. Raises InvalidRequest, which names the line."""
    text = text.removeprefix("\ufeff")
    entries: dict[str, str] = {}
    for number, row in _rows(text, format):
        if len(row) != 2 and (format == "tsv" or len(row) != 4):
            separator = "tab" if format == "tsv" else "comma"
            raise InvalidRequest(f"Line {number} of the entries must be a term, a {separator} and its translation.")
        term, translation = row[0].strip(), row[1].strip()
        if not term or not translation:
            raise InvalidRequest(f"Line {number} of the entries has an empty term.")
        if term in entries:
            raise InvalidRequest(f"Line {number} of the entries repeats a term.")
        entries[term] = translation
    return entries


def write_entries(entries: Mapping[str, str], format: EntriesFormat = "tsv") -> str:
    """Returns the entries as a file."""
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
        return [(number, row) for number, row in enumerate(csv.reader(file, strict=True), start=1) if row]
    except csv.Error as error:
        raise InvalidRequest(f"The entries are not CSV: {error}.") from None
