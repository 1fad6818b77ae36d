"""Reads plain text (.txt) and web pages (.html)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence

from server.documents.document import Document, join_pieces
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
ROOT = re.compile(rb"<html\b[^>]{0,1000}>", re.IGNORECASE)
LANGUAGE = re.compile(rb"(\s(?:xml:)?lang\s*=\s*[\"'])[\w\-]{1,40}", re.IGNORECASE)


def read_text(data: bytes) -> Document:
    """Reads a text in UTF-8, or in UTF-16 with a byte order mark. Raises InvalidRequest."""
    text, encode = decode(data)
    return text_document(join_pieces(LINES.findall(text)), encode)


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
    pieces = join_pieces(passage.render() for passage in parse_passages(text, "html"))
    return Document(tuple(pieces), "html", lambda translations: encode("".join(translations)))


def has_internal_subset(text: str) -> bool:
    """Returns whether a page's document type contains declarations, which would otherwise be read as text."""
    tags = (token for token in scan_markup(text) if not isinstance(token, str))
    for tag in tags:
        if tag.raw[:9].lower() == "<!doctype":
            return "[" in tag.raw
        if tag.opens:
            return False
    return False


def text_document(pieces: list[str], encode: Callable[[str], bytes]) -> Document:
    """Returns a document of pieces of text. Line ends at the edges of a piece are kept and not translated."""
    edges = [(len(piece) - len(piece.lstrip("\r\n")), len(piece.rstrip("\r\n"))) for piece in pieces]
    filled = [i for i, piece in enumerate(pieces) if BREAKS.sub("", piece).strip()]

    def write(translations: Sequence[str]) -> bytes:
        made = list(pieces)
        for i, translated in zip(filled, translations, strict=True):
            start, end = edges[i]
            made[i] = pieces[i][:start] + translated + pieces[i][end:]
        return encode("".join(made))

    return Document(tuple(pieces[i][slice(*edges[i])] for i in filled), "text", write)


def decode(data: bytes, encoding: str = "utf-8") -> tuple[str, Callable[[str], bytes]]:
    """Returns the text of a file and a function that encodes a text in the same way. Raises InvalidRequest."""
    mark = b""
    for known, name in BYTE_ORDER_MARKS:
        if data.startswith(known):
            mark, encoding = known, name
            break
    if not ENCODINGS.match(encoding):
        encoding = "utf-8"
    try:
        text = data[len(mark) :].decode(encoding)
        text.encode(encoding)
    except (LookupError, UnicodeError):
        raise InvalidRequest("The file is not text in UTF-8; save it in that encoding and send it again.") from None
    return text, lambda made: mark + made.encode(encoding, "xmlcharrefreplace")


def with_language(data: bytes, target: str) -> bytes:
    """Returns the page with the language attributes of its root element set to `target`, if it has any."""
    root = ROOT.search(data[:HEAD_BYTES])
    if root is None:
        return data
    changed = LANGUAGE.sub(lambda found: found[1] + target.encode(), root[0])
    return data[: root.start()] + changed + data[root.end() :]
