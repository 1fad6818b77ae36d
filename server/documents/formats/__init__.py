"""The file formats that can be translated, by the suffix of a file name."""

from __future__ import annotations

from typing import NamedTuple

from server.errors import InvalidRequest


class FileFormat(NamedTuple):
    """The format of files with a suffix, which `function` of the module `reader` reads."""

    suffix: str
    media_type: str
    reader: str
    function: str = "read"
    written_as: str = ""
    """Another suffix of translated files, or ""."""


OFFICE = "application/vnd.openxmlformats-officedocument"
OPEN_DOCUMENT = "application/vnd.oasis.opendocument"
FORMATS = tuple(
    FileFormat(suffix, *row)
    for suffixes, *row in (
        (".txt", "text/plain", "plain"),
        (".srt", "application/x-subrip", "subtitles"),
        (".vtt", "text/vtt", "subtitles", "read_webvtt"),
        (".html .htm", "text/html", "html"),
        (".docx", f"{OFFICE}.wordprocessingml.document", "xml.office"),
        (".md .markdown .mdx", "text/markdown", "markdown"),
        (".po .pot", "text/x-gettext-translation", "gettext"),
        (".json .arb", "application/json", "messages"),
        (".jsonc", "application/json", "messages", "read_with_comments"),
        (".yml .yaml", "application/yaml", "messages", "read_yaml"),
        (".xlf .xliff", "application/xliff+xml", "xml.xliff"),
        (".pptx", f"{OFFICE}.presentationml.presentation", "xml.office"),
        (".xlsx", f"{OFFICE}.spreadsheetml.sheet", "xml.office"),
        (".odt", f"{OPEN_DOCUMENT}.text", "xml.office", "read_open_document"),
        (".odp", f"{OPEN_DOCUMENT}.presentation", "xml.office", "read_open_document"),
        (".ods", f"{OPEN_DOCUMENT}.spreadsheet", "xml.office", "read_open_document"),
        (".pdf", "application/pdf", "pdf.as_pdf"),
        (".pdf", "text/html", "pdf.pages", "read", ".html"),
        (".epub", "application/epub+zip", "xml.book"),
    )
    for suffix in suffixes.split()
)
SUFFIXES = tuple(dict.fromkeys(format.suffix for format in FORMATS))


def format_of(name: str, output: str = "", setting: str = "'output_format'") -> FileFormat:
    """Returns the format of a file by its name and the suffix of its translation ("": the first),
    which the caller chose by `setting`. Raises InvalidRequest."""
    read = [format for format in FORMATS if name.lower().endswith(format.suffix)]
    if not read:
        raise InvalidRequest(
            f"Files of this kind are not read here; send one of {', '.join(SUFFIXES)}."
        )
    written = {(format.written_as or format.suffix)[1:]: format for format in read}
    format = written.get(output.lower().removeprefix(".")) if output else read[0]
    if format is not None:
        return format
    choices = " or ".join(written)
    raise InvalidRequest(
        f"A {read[0].suffix} file is translated into {choices} here; set {setting} to {choices}."
    )
