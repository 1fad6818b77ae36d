"""The file formats that can be translated, by file name suffix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from server.errors import InvalidRequest

Reader = Callable[[bytes, str], Document]
"""Reads a document from (content, target language)."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    suffix: str
    media_type: str
    read: Reader
    written_as: str = ""
    """The suffix of translated files, if it is another one."""


FORMATS = (
    FileFormat(".txt", "text/plain", lambda data, _: plain.read_text(data)),
    FileFormat(".srt", "application/x-subrip", lambda data, _: subtitles.read(data, web=False)),
    FileFormat(".vtt", "text/vtt", lambda data, _: subtitles.read(data, web=True)),
    FileFormat(".html", "text/html", plain.read_page),
    FileFormat(".htm", "text/html", plain.read_page),
    FileFormat(
        ".docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        lambda data, _: docx.read(data),
    ),
    FileFormat(".md", "text/markdown", lambda data, _: markdown.read(data)),
    FileFormat(".markdown", "text/markdown", lambda data, _: markdown.read(data)),
    FileFormat(".po", "text/x-gettext-translation", gettext.read),
    FileFormat(".pot", "text/x-gettext-translation", gettext.read),
    FileFormat(".json", "application/json", json_strings.read),
    FileFormat(".arb", "application/json", json_strings.read),
    FileFormat(".yml", "application/yaml", yaml_strings.read),
    FileFormat(".yaml", "application/yaml", yaml_strings.read),
    FileFormat(".xlf", "application/xliff+xml", xliff.read),
    FileFormat(".xliff", "application/xliff+xml", xliff.read),
    FileFormat(
        ".pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        lambda data, _: office_open.read_slides(data),
    ),
    FileFormat(
        ".xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        lambda data, _: office_open.read_workbook(data),
    ),
    FileFormat(".odt", "application/vnd.oasis.opendocument.text", lambda data, _: odt.read(data)),
    FileFormat(".odp", "application/vnd.oasis.opendocument.presentation", lambda data, _: odt.read(data)),
    FileFormat(".ods", "application/vnd.oasis.opendocument.spreadsheet", lambda data, _: odt.read(data)),
    FileFormat(".pdf", "text/html", pdf.read, ".html"),
    FileFormat(".epub", "application/epub+zip", epub.read),
)
SUFFIXES = tuple(format.suffix for format in FORMATS)


def format_of(name: str) -> FileFormat:
    """Returns the format of a file by its name. Raises InvalidRequest."""
    for format in FORMATS:
        if name.lower().endswith(format.suffix):
            return format
    raise InvalidRequest(f"Files of this kind are not read here; send one of {', '.join(SUFFIXES)}.")
