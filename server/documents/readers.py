"""The readers of the file formats. Only the process that reads documents imports them and the libraries that they use."""

from __future__ import annotations

from collections.abc import Callable

from server.documents import (
    docx,
    epub,
    gettext,
    json_strings,
    markdown,
    odt,
    office_open,
    pdf,
    plain,
    subtitles,
    xliff,
    yaml_strings,
)
from server.documents.document import Document
from server.documents.formats import format_of

Reader = Callable[[bytes, str], Document]
"""Reads a document from (content, target language)."""

READERS: dict[str, Reader] = {
    ".txt": lambda data, _: plain.read_text(data),
    ".srt": lambda data, _: subtitles.read(data, web=False),
    ".vtt": lambda data, _: subtitles.read(data, web=True),
    ".html": plain.read_page,
    ".htm": plain.read_page,
    ".docx": lambda data, _: docx.read(data),
    ".md": lambda data, _: markdown.read(data),
    ".markdown": lambda data, _: markdown.read(data),
    ".po": gettext.read,
    ".pot": gettext.read,
    ".json": json_strings.read,
    ".arb": json_strings.read,
    ".yml": yaml_strings.read,
    ".yaml": yaml_strings.read,
    ".xlf": xliff.read,
    ".xliff": xliff.read,
    ".pptx": lambda data, _: office_open.read_slides(data),
    ".xlsx": lambda data, _: office_open.read_workbook(data),
    ".odt": lambda data, _: odt.read(data),
    ".odp": lambda data, _: odt.read(data),
    ".ods": lambda data, _: odt.read(data),
    ".pdf": pdf.read,
    ".epub": epub.read,
}
"""Reader of each suffix in `server.documents.formats.FORMATS`."""


def read_document(name: str, content: bytes, target: str) -> Document:
    """Reads a file, in the format that its name says, for a translation into `target`. Raises InvalidRequest."""
    return READERS[format_of(name).suffix](content, target)
