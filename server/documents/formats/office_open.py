"""Reads presentations (.pptx) and workbooks (.xlsx): the text of slides, notes, charts and drawings, and the strings of
cells and comments. The names of sheets and the headers of tables are not changed, because formulas refer to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from server.documents.document import Document
from server.documents.formats.office import Found, RunParagraph, RunTags, office_document
from server.documents.formats.xml_inline import Element, parse_xml
from server.documents.zip_archive import Archive

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
DRAWING = RunTags(
    run=A + "r",
    properties=A + "rPr",
    text=A + "t",
    first=A + "pPr",
    ends=frozenset((A + "endParaRPr",)),
    gaps=frozenset((A + "br",)),
    invisible=frozenset(("lang", "altLang", "dirty", "err", "noProof", "smtClean", "bmk")),
)
CELL = RunTags(
    run=S + "r", properties=S + "rPr", text=S + "t", ends=frozenset((S + "rPh", S + "phoneticPr")), spaces=True
)
SLIDES = re.compile(
    r"ppt/(?:slides/slide|notesSlides/notesSlide|charts/chart|diagrams/(?:data|drawing))\d+\.xml|ppt/comments/.*\.xml"
)
SHEETS = re.compile(r"xl/(?:sharedStrings|comments\d*|charts/chart\d+|drawings/drawing\d+)\.xml")
CELLS = re.compile(r"xl/worksheets/sheet\d+\.xml")
TABLES = re.compile(r"xl/tables/table\d+\.xml")


def read_slides(data: bytes, target: str) -> Document:
    """Reads a .pptx file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    archive.require("ppt/presentation.xml")
    return office_document(archive, [name for name in archive.names if SLIDES.fullmatch(name)], find_paragraphs)


def read_workbook(data: bytes, target: str) -> Document:
    """Reads a .xlsx file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    archive.require("xl/workbook.xml")
    names = [name for name in archive.names if SHEETS.fullmatch(name)]
    names += [name for name in archive.names if CELLS.fullmatch(name) and b"inlineStr" in archive.part(name)]
    headers = frozenset(
        column.get("name", "")
        for name in archive.names
        if TABLES.fullmatch(name)
        for column in parse_xml(archive.part(name)).iter(S + "tableColumn")
    )
    return office_document(archive, names, find_paragraphs, headers)


def find_paragraphs(root: Element) -> Iterator[Found]:
    """Yields the paragraphs of a part."""
    for paragraph in root.iter(A + "p"):
        yield paragraph, partial(RunParagraph, tags=DRAWING)
    for cell in root.iter(S + "si", S + "is", S + "text"):
        yield cell, partial(RunParagraph, tags=CELL)
