"""What is fuzzed: functions of bytes that raise where an invariant breaks.

Every target begins with seeds of its own; `tests.fuzz` lets atheris mutate them, guided by the branches they reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.endurance.fuzz import LANGUAGES, SEEDS, losses
from server.documents.document import Document
from server.documents.formats import format_of
from server.errors import AttentiveError
from server.text.html_passages import parse_passages
from tests.support import document_files as make
from tests.unit.server.documents.test_formats import SRT, VTT
from tests.unit.server.documents.test_mutations import BROKEN, WHOLE

TEXT_CHARACTERS = 2_000
WORD_BODY = make.part(make.word_file(), "word/document.xml")
OPEN_BODY = (
    '<text:h>Head</text:h><text:p>Say <text:span text:style-name="B">bold</text:span><text:tab/>now<text:s/></text:p>'
)
BOOK_PARTS = {"OEBPS/book.opf": make.BOOK, "OEBPS/a page.xhtml": make.PAGE, "OEBPS/toc.ncx": make.CONTENTS}


@dataclass(frozen=True, slots=True)
class Target:
    """`check` raises anything at all where its input breaks an invariant."""

    check: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def texts(data: bytes) -> None:
    """Segmentation, cutting, scanning, parsing and masking lose nothing. Two bytes choose the language and the cut."""
    if len(data) < 2:
        return
    text = data[2:].decode("utf-8", "replace")[:TEXT_CHARACTERS]
    lost = list(losses(text, LANGUAGES[data[0] % len(LANGUAGES)], 1 + data[1] % 12))
    assert not lost, lost


def file(name: str, data: bytes, exact: bool = False) -> None:
    """A file is refused with a sentence, or else whatever its texts become, what is written can be read again.

    Without a change it has the same words as before, and where it is `exact` the same bytes.
    """
    format = format_of(name)
    try:
        document = format.read(data, "de")
    except AttentiveError as error:
        assert error.message.endswith(".")
        return
    passages = [parse_passages(text, document.format) for text in document.texts]
    same = format.read(data, "de").write(document.texts)
    assert not exact or same == data
    assert words(format.read(same, "de")) == words(document)
    turned = ["".join(passage.render(passage.text[::-1]) for passage in found) for found in passages]
    format.read(document.write(turned), "de")


def words(document: Document) -> list[str]:
    """What is to be translated, without markup and however it is laid out."""
    texts = (passage.text for text in document.texts for passage in parse_passages(text, document.format))
    return [word for text in texts for word in text.split()]


def word(data: bytes) -> None:
    """The main part of a .docx."""
    file("a.docx", make.archive({"word/document.xml": data}))


def open_document(data: bytes) -> None:
    """The content of an .odt."""
    file("a.odt", make.archive({"content.xml": data}))


def book(data: bytes) -> None:
    """One part of an .epub; the first byte says which."""
    name = list(BOOK_PARTS)[data[0] % len(BOOK_PARTS)] if data else next(iter(BOOK_PARTS))
    file("a.epub", make.archive({"META-INF/container.xml": make.CONTAINER, **BOOK_PARTS, name: data[1:]}))


TARGETS = {
    "texts": Target(texts, tuple(b"\x01\x05" + seed.encode() for seed in SEEDS)),
    "txt": Target(lambda data: file("a.txt", data, exact=True), (b"Hello.\nWorld\r\n\n", "Hé".encode("utf-16"))),
    "srt": Target(lambda data: file("a.srt", data), (SRT.encode(),)),
    "vtt": Target(lambda data: file("a.vtt", data), (VTT.encode(),)),
    "html": Target(
        lambda data: file("a.html", data),
        (make.PAGE.encode(), b'<html lang="en"><meta charset=latin-1><pre>a</pre><p>b <b>c</b> \xe9&eacute;', *WHOLE),
    ),
    "docx": Target(word, (WORD_BODY.encode(), make.part(make.word_body("<w:p/>"), "word/document.xml").encode())),
    "odt": Target(open_document, (make.part(make.open_document(OPEN_BODY), "content.xml").encode(),)),
    "epub": Target(book, tuple(bytes([i]) + part.encode() for i, part in enumerate(BOOK_PARTS.values()))),
    "archive": Target(lambda data: file("a.docx", data), (make.word_body("<w:p/>"), make.archive({"a": "b"}))),
}
WORDS = (*BROKEN, *WHOLE, b"-->", b"<w:t>", b"<w:rPr>", b"<text:s/>", b"<!DOCTYPE", b"PK\x03\x04")
"""What mutations put in whole."""
