"""Reads Word files (.docx), presentations (.pptx) and workbooks (.xlsx): the text of documents, headers, notes, slides,
diagrams, charts, comments and cells. The names of sheets and the headers of tables are not changed, because formulas refer
to them."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import partial

from server.documents.document import Document
from server.documents.formats.office import Paragraph, RunParagraph, RunTags, office_document
from server.documents.formats.ooxml.content_controls import stores_by_id
from server.documents.formats.ooxml.package import parts_by_kind, prefixes
from server.documents.formats.ooxml.word import WordParagraph, word_tags
from server.documents.formats.xml_inline import NUMBERED_TAG, Element, Inline, parse_xml
from server.documents.zip_archive import Archive
from server.text.syntax.markup import markup_tokens

KINDS = frozenset(
    "header footer footnotes endnotes comments slide notesSlide chart chartEx chartUserShapes diagramData diagramDrawing "
    "drawing sharedStrings threadedComment".split()
)
"""Kinds of parts with text."""
SHEET_WITH_TEXT = re.compile(rb"inlineStr|dataValidation |headerFooter")
MARGIN_CODE = re.compile(r'&(?:"[^"]*"|K[0-9A-F]{6}|K\d\d[+\-]\d{3}|\d+|.)', re.DOTALL)
"""A code of a header or footer (ECMA-376 part 1, 18.3.1.46)."""


def drawing_tags(a: str) -> RunTags:
    """Returns the tags of the text of drawings in this namespace."""
    return RunTags(
        run=a + "r",
        properties=a + "rPr",
        text=a + "t",
        first=a + "pPr",
        ends=frozenset((a + "endParaRPr",)),
        gaps=frozenset((a + "br",)),
        invisible=frozenset(("lang", "altLang", "dirty", "err", "noProof", "smtClean", "bmk")),
    )


def cell_tags(s: str) -> RunTags:
    """Returns the tags of the strings of cells in this namespace."""
    ends = frozenset((s + "rPh", s + "phoneticPr"))
    return RunTags(run=s + "r", properties=s + "rPr", text=s + "t", ends=ends, spaces=True)


class SheetMargin:
    """A header or footer of printed sheets: `&L`, `&C` and `&R` separate texts, other codes are moved like words."""

    def __init__(self, element: Element) -> None:
        self.element, self.inline = element, Inline()
        position, text = 0, element.text or ""
        for code in MARGIN_CODE.finditer(text):
            self.inline.text(text[position : code.start()])
            position = code.end()
            if code[0] == "&&":
                self.inline.text("&")
            elif code[0][1] in "LCR":
                self.inline.gap([code[0]])
            else:
                self.inline.atom([code[0]])
        self.inline.text(text[position:])

    def fill(self, translated: str) -> None:
        """Writes the translation with its codes."""
        parts = []
        for token in markup_tokens(translated):
            if isinstance(token, str):
                parts.append(html.unescape(token).replace("&", "&&"))
            elif (tag := NUMBERED_TAG.fullmatch(token.raw)) is not None:
                parts.append(self.inline.elements[int(tag[2])][0])
        self.element.text = "".join(parts)


PARAGRAPHS: dict[str, Callable[[Element], Paragraph]] = {
    **{w + "p": partial(WordParagraph, tags=word_tags(w)) for w in prefixes("wordprocessingml", "main")},
    **{a + "p": partial(RunParagraph, tags=drawing_tags(a)) for a in prefixes("drawingml", "main")},
    **{
        s + name: partial(RunParagraph, tags=cell_tags(s))
        for s in prefixes("spreadsheetml", "main")
        for name in ("si", "is", "text")
    },
    **{
        s + page + place: SheetMargin
        for s in prefixes("spreadsheetml", "main")
        for page in ("odd", "even", "first")
        for place in ("Header", "Footer")
    },
}


def read_word(data: bytes, target: str) -> Document:
    """Reads a .docx file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    parts = parts_by_kind(archive, "document", KINDS | {"customXml"})
    with_text = [part for part, kind in parts.items() if kind != "customXml"]
    return office_document(archive, with_text, PARAGRAPHS, data=stores_by_id(archive, parts))


def read_slides(data: bytes, target: str) -> Document:
    """Reads a .pptx file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    return office_document(archive, parts_by_kind(archive, "presentation", KINDS), PARAGRAPHS)


def read_workbook(data: bytes, target: str) -> Document:
    """Reads a .xlsx file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    parts = parts_by_kind(archive, "workbook", KINDS | {"table"})
    headers = frozenset(
        column.get("name", "")
        for part, kind in parts.items()
        if kind == "table"
        for column in parse_xml(archive.part(part)).iter("{*}tableColumn")
    )
    with_text = [
        part
        for part, kind in parts.items()
        if kind != "table" and (kind != "worksheet" or SHEET_WITH_TEXT.search(archive.part(part)))
    ]
    return office_document(archive, with_text, PARAGRAPHS, headers)
