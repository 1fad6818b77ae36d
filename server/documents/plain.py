"""Plain text (.txt) and web pages (.html)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence

from server.documents.document import Document, gathered
from server.errors import InvalidRequest
from server.text.html_passages import parse_passages
from server.text.segmentation import BREAKS

MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
LINES = re.compile(r"[^\n]*\n|[^\n]+")
HEAD_BYTES = 2048
CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:\-]{2,40})[^>]{0,200}>"
    rb"|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:\-]{2,40})[^>]{0,200}>",
    re.I,
)
"""Where a page names its encoding. What never ends is no tag, would be written as text and name nothing any more."""
ENCODINGS = re.compile(
    r"(?:utf|iso|cp\d|windows|latin|koi8|big5|gb|euc|shift|sjis|mac|us-ascii|ascii|tis)", re.IGNORECASE
)
"""What pages are written in. Python knows more codecs, and some take time that grows with the square of the length."""
ROOT = re.compile(rb"<html\b[^>]{0,1000}>", re.IGNORECASE)
LANGUAGE = re.compile(rb"(\s(?:xml:)?lang\s*=\s*[\"'])[\w\-]{1,40}", re.IGNORECASE)


def read_text(data: bytes) -> Document:
    """A text in UTF-8, or in UTF-16 with its mark. Raises InvalidRequest."""
    text, back = decoded(data)
    return separated(gathered(LINES.findall(text)), back)


def read_page(data: bytes, target: str) -> Document:
    """A web page; `target` becomes its language. Raises InvalidRequest."""
    document = page(data)
    return Document(
        document.texts, document.format, lambda translations: with_language(document.write(translations), target)
    )


def page(data: bytes) -> Document:
    """HTML or XHTML, in the encoding that it names itself. What the encoding lacks is written as a reference."""
    found = CHARSET.search(data[:HEAD_BYTES])
    text, back = decoded(data, (found[1] or found[2]).decode() if found else "utf-8")
    pieces = gathered(passage.render() for passage in parse_passages(text, "html"))
    return Document(tuple(pieces), "html", lambda translations: back("".join(translations)))


def separated(pieces: list[str], back: Callable[[str], bytes]) -> Document:
    """Pieces of text whose line ends at the edges stay where they are."""
    edges = [(len(piece) - len(piece.lstrip("\r\n")), len(piece.rstrip("\r\n"))) for piece in pieces]
    filled = [i for i, piece in enumerate(pieces) if BREAKS.sub("", piece).strip()]

    def write(translations: Sequence[str]) -> bytes:
        made = list(pieces)
        for i, translated in zip(filled, translations, strict=True):
            start, end = edges[i]
            made[i] = pieces[i][:start] + translated + pieces[i][end:]
        return back("".join(made))

    return Document(tuple(pieces[i][slice(*edges[i])] for i in filled), "text", write)


def decoded(data: bytes, encoding: str = "utf-8") -> tuple[str, Callable[[str], bytes]]:
    """The text of a file, and the way back to its encoding. Raises InvalidRequest."""
    mark = b""
    for known, name in MARKS:
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
    """The page with the language attributes of its root, where it has any, set to the new language."""
    root = ROOT.search(data[:HEAD_BYTES])
    if root is None:
        return data
    changed = LANGUAGE.sub(lambda found: found[1] + target.encode(), root[0])
    return data[: root.start()] + changed + data[root.end() :]
