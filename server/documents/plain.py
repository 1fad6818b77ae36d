"""Reads plain text (.txt) and web pages (.html)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from itertools import groupby

from server.documents.document import Document, join_pieces
from server.documents.html_attributes import find_attributes
from server.documents.wrapped_lines import Paragraph, paragraphs
from server.errors import InvalidRequest
from server.text.html_passages import parse_passages
from server.text.html_scanner import scan_markup
from server.text.segmentation import BREAKS

BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
LINES = re.compile(r"[^\n]*\n|[^\n]+")
HEAD_BYTES = 2048
CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:\-]{2,40})[^>]{0,200}>"
    rb"|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:\-]{2,40})[^>]{0,200}>",
    re.I,
)
"""Declarations of a page's encoding. A tag without an end is excluded: it is text, and after translation it would no
longer declare the encoding."""
ENCODINGS = re.compile(
    r"(?:utf|iso|cp\d|windows|latin|koi8|big5|gb|euc|shift|sjis|mac|us-ascii|ascii|tis)", re.IGNORECASE
)
"""Encodings of web pages. Some of Python's other codecs take time that grows with the square of the length."""
UTF_16_SHARE = 0.5
WESTERN_SAMPLE = 20_000
WESTERN_SHARE = 0.25
"""Largest share of letters outside ASCII in a text in Latin-1. In French it is about 0.05; a text in Cyrillic or Greek
that is read as Latin-1 is above 0.9."""
CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")
ROOT = re.compile(rb"<html\b[^>]{0,1000}>", re.IGNORECASE)
LANGUAGE = re.compile(rb"(\s(?:xml:)?lang\s*=\s*[\"'])[\w\-]{1,40}", re.IGNORECASE)


def read_text(data: bytes) -> Document:
    """Reads a text in UTF-8, or in UTF-16 with a byte order mark. Raises InvalidRequest."""
    text, encode = decode(data)
    pieces: list[str | Paragraph] = []
    for wrapped, group in groupby(paragraphs(LINES.findall(text)), lambda part: isinstance(part, Paragraph)):
        parts = list(group)
        pieces += parts if wrapped else join_pieces(part for part in parts if isinstance(part, str))
    return text_document(pieces, encode)


def read_page(data: bytes, target: str) -> Document:
    """Reads a web page and sets its language to `target`. Raises InvalidRequest."""
    document = page(data)
    return Document(
        document.texts, document.format, lambda translations: with_language(document.write(translations), target)
    )


def page(data: bytes) -> Document:
    """Reads HTML or XHTML in the encoding that it declares. Characters outside the encoding are written as
    references."""
    found = CHARSET.search(data[:HEAD_BYTES])
    text, encode = decode(data, (found[1] or found[2]).decode() if found else "utf-8")
    if has_internal_subset(text):
        raise InvalidRequest("The page defines entities of its own; remove its document type.")
    attributes = find_attributes(text)
    pieces = join_pieces(passage.render() for passage in parse_passages(attributes.page, "html"))

    def write(translations: Sequence[str]) -> bytes:
        made = "".join(translations[: len(pieces)])
        return encode(attributes.restore(made, translations[len(pieces) :]))

    return Document((*pieces, *attributes.texts), "html", write)


def has_internal_subset(text: str) -> bool:
    """Returns whether a page's document type contains declarations, which would otherwise be read as text."""
    tags = (token for token in scan_markup(text) if not isinstance(token, str))
    for tag in tags:
        if tag.raw[:9].lower() == "<!doctype":
            return "[" in tag.raw
        if tag.opens:
            return False
    return False


def text_document(pieces: Sequence[str | Paragraph], encode: Callable[[str], bytes]) -> Document:
    """Returns a document of pieces of text and of paragraphs that are wrapped. Line ends at the edges of a piece are kept
    and not translated."""
    filled = [piece for piece in pieces if isinstance(piece, Paragraph) or BREAKS.sub("", piece).strip()]

    def write(translations: Sequence[str]) -> bytes:
        made: list[str] = []
        translated = iter(translations)
        for piece in pieces:
            if isinstance(piece, Paragraph):
                made.append(piece.wrapped(next(translated)))
            elif BREAKS.sub("", piece).strip():
                start, end = edges(piece)
                made.append(piece[:start] + next(translated) + piece[end:])
            else:
                made.append(piece)
        return encode("".join(made))

    texts = [piece.text if isinstance(piece, Paragraph) else piece[slice(*edges(piece))] for piece in filled]
    return Document(tuple(texts), "text", write)


def edges(piece: str) -> tuple[int, int]:
    """Returns the part of a piece without the line ends around it."""
    return len(piece) - len(piece.lstrip("\r\n")), len(piece.rstrip("\r\n"))


def decode(data: bytes, encoding: str = "utf-8") -> tuple[str, Callable[[str], bytes]]:
    """Returns the text of a file and a function that encodes a text in the same way. Raises InvalidRequest."""
    mark = b""
    for known, name in BYTE_ORDER_MARKS:
        if data.startswith(known):
            mark, encoding = known, name
            break
    if not ENCODINGS.match(encoding):
        encoding = "utf-8"
    if not mark and (unmarked := unmarked_utf_16(data)):
        encoding = unmarked
    try:
        text = data[len(mark) :].decode(encoding)
        text.encode(encoding)
    except (LookupError, UnicodeError):
        if mark or not is_western(data):
            raise InvalidRequest("The file is not text in UTF-8; save it in that encoding and send it again.") from None
        encoding = "cp1252"
        text = data.decode(encoding)
    return text, lambda made: mark + made.encode(encoding, "xmlcharrefreplace")


def unmarked_utf_16(data: bytes) -> str | None:
    """Returns the name of the encoding of UTF-16 without a byte order mark: every second byte of most text is zero."""
    head = data[:HEAD_BYTES]
    high, low = head[::2].count(0), head[1::2].count(0)
    if len(data) % 2 or max(high, low) < UTF_16_SHARE * len(head) / 2 or min(high, low) > 0:
        return None
    return "utf-16-be" if high > low else "utf-16-le"


def is_western(data: bytes) -> bool:
    """Returns whether a file that is not UTF-8 is text in Latin-1 or Windows-1252: few letters are outside ASCII, and all
    characters exist."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    letters = [character for character in text[:WESTERN_SAMPLE] if character.isalpha()]
    outside = sum(not character.isascii() for character in letters)
    return outside <= WESTERN_SHARE * len(letters) and not CONTROLS.search(text)


def with_language(data: bytes, target: str) -> bytes:
    """Returns the page with the language attributes of its root element set to `target`, if it has any."""
    root = ROOT.search(data[:HEAD_BYTES])
    if root is None:
        return data
    changed = LANGUAGE.sub(lambda found: found[1] + target.encode(), root[0])
    return data[: root.start()] + changed + data[root.end() :]
