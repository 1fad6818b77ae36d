"""The file formats that can be translated, by file name suffix. `server.documents.reader_process` reads them."""

from __future__ import annotations

from dataclasses import dataclass

from server.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class FileFormat:
    suffix: str
    media_type: str
    written_as: str = ""
    """The suffix of translated files, if it is another one."""


FORMATS = (
    FileFormat(".txt", "text/plain"),
    FileFormat(".srt", "application/x-subrip"),
    FileFormat(".vtt", "text/vtt"),
    FileFormat(".html", "text/html"),
    FileFormat(".htm", "text/html"),
    FileFormat(".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    FileFormat(".md", "text/markdown"),
    FileFormat(".markdown", "text/markdown"),
    FileFormat(".po", "text/x-gettext-translation"),
    FileFormat(".pot", "text/x-gettext-translation"),
    FileFormat(".json", "application/json"),
    FileFormat(".arb", "application/json"),
    FileFormat(".yml", "application/yaml"),
    FileFormat(".yaml", "application/yaml"),
    FileFormat(".xlf", "application/xliff+xml"),
    FileFormat(".xliff", "application/xliff+xml"),
    FileFormat(".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    FileFormat(".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    FileFormat(".odt", "application/vnd.oasis.opendocument.text"),
    FileFormat(".odp", "application/vnd.oasis.opendocument.presentation"),
    FileFormat(".ods", "application/vnd.oasis.opendocument.spreadsheet"),
    FileFormat(".pdf", "text/html", ".html"),
    FileFormat(".epub", "application/epub+zip"),
)
SUFFIXES = tuple(format.suffix for format in FORMATS)


def format_of(name: str) -> FileFormat:
    """Returns the format of a file by its name. Raises InvalidRequest."""
    for format in FORMATS:
        if name.lower().endswith(format.suffix):
            return format
    raise InvalidRequest(f"Files of this kind are not read here; send one of {', '.join(SUFFIXES)}.")
