"""The file formats that can be translated, by file name suffix. `server.documents.reader_process` reads them."""

from __future__ import annotations

from dataclasses import dataclass

from server.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files with this suffix. `read` in the module `reader` reads them, another function if it is named."""

    suffix: str
    media_type: str
    reader: str
    function: str = "read"
    written_as: str = ""
    """The suffix of translated files, if it is another one."""


OFFICE = "application/vnd.openxmlformats-officedocument"
OPEN_DOCUMENT = "application/vnd.oasis.opendocument"
FORMATS = (
    FileFormat(".txt", "text/plain", "plain"),
    FileFormat(".srt", "application/x-subrip", "subtitles", "read_subrip"),
    FileFormat(".vtt", "text/vtt", "subtitles", "read_webvtt"),
    FileFormat(".html", "text/html", "html"),
    FileFormat(".htm", "text/html", "html"),
    FileFormat(".docx", f"{OFFICE}.wordprocessingml.document", "xml.office", "read_word"),
    FileFormat(".md", "text/markdown", "markdown"),
    FileFormat(".markdown", "text/markdown", "markdown"),
    FileFormat(".mdx", "text/markdown", "markdown"),
    FileFormat(".po", "text/x-gettext-translation", "gettext"),
    FileFormat(".pot", "text/x-gettext-translation", "gettext"),
    FileFormat(".json", "application/json", "json"),
    FileFormat(".jsonc", "application/json", "json", "read_with_comments"),
    FileFormat(".arb", "application/json", "json"),
    FileFormat(".yml", "application/yaml", "yaml"),
    FileFormat(".yaml", "application/yaml", "yaml"),
    FileFormat(".xlf", "application/xliff+xml", "xml.xliff"),
    FileFormat(".xliff", "application/xliff+xml", "xml.xliff"),
    FileFormat(".pptx", f"{OFFICE}.presentationml.presentation", "xml.office", "read_slides"),
    FileFormat(".xlsx", f"{OFFICE}.spreadsheetml.sheet", "xml.office", "read_workbook"),
    FileFormat(".odt", f"{OPEN_DOCUMENT}.text", "xml.office", "read_open_document"),
    FileFormat(".odp", f"{OPEN_DOCUMENT}.presentation", "xml.office", "read_open_document"),
    FileFormat(".ods", f"{OPEN_DOCUMENT}.spreadsheet", "xml.office", "read_open_document"),
    FileFormat(".pdf", "application/pdf", "pdf.as_pdf"),
    FileFormat(".pdf", "text/html", "pdf.as_html", written_as=".html"),
    FileFormat(".epub", "application/epub+zip", "xml.book"),
)
SUFFIXES = tuple(dict.fromkeys(format.suffix for format in FORMATS))


def format_of(name: str, output: str = "", setting: str = "'output_format'") -> FileFormat:
    """Returns the format of a file by its name and by the suffix of its translation, with or without its dot, which the caller
    chose by `setting`. The first of a kind of files is its default. Raises InvalidRequest."""
    read = [format for format in FORMATS if name.lower().endswith(format.suffix)]
    if not read:
        raise InvalidRequest(f"Files of this kind are not read here; send one of {', '.join(SUFFIXES)}.")
    for format in read:
        if not output or (format.written_as or format.suffix) == "." + output.lower().removeprefix("."):
            return format
    written = " or ".join((format.written_as or format.suffix).removeprefix(".") for format in read)
    raise InvalidRequest(f"A {read[0].suffix} file is translated into {written} here; set {setting} to {written}.")
