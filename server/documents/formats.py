"""Which files are read: by the end of their name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from server.documents import docx as word
from server.documents import epub, plain, subtitles
from server.documents import odt as opendocument
from server.documents.document import Document
from server.errors import UnsupportedMediaType

Reader = Callable[[bytes, str], Document]
"""(content, target language) -> document."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    suffix: str
    media_type: str
    read: Reader


FORMATS = (
    FileFormat(".txt", "text/plain", lambda data, _: plain.read_text(data)),
    FileFormat(".srt", "application/x-subrip", lambda data, _: subtitles.read(data, web=False)),
    FileFormat(".vtt", "text/vtt", lambda data, _: subtitles.read(data, web=True)),
    FileFormat(".html", "text/html", plain.read_page),
    FileFormat(".htm", "text/html", plain.read_page),
    FileFormat(
        ".docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        lambda data, _: word.read(data),
    ),
    FileFormat(".odt", "application/vnd.oasis.opendocument.text", lambda data, _: opendocument.read(data)),
    FileFormat(".epub", "application/epub+zip", epub.read),
)
SUFFIXES = tuple(format.suffix for format in FORMATS)


def format_of(name: str) -> FileFormat:
    """The format of a file by its name. Raises UnsupportedMediaType."""
    for format in FORMATS:
        if name.lower().endswith(format.suffix):
            return format
    raise UnsupportedMediaType(f"Files of this kind are not read here; send one of {', '.join(SUFFIXES)}.")
