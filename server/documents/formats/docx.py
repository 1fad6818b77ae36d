"""Reads Word files (.docx): the paragraphs of the text, of headers, footers and notes. Fields and deleted text are not
changed."""

from __future__ import annotations

import re

from lxml import etree

from server.documents.document import Document
from server.documents.formats.office import RunParagraph, RunTags, office_document
from server.documents.formats.xml_inline import Element
from server.documents.zip_archive import Archive

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
CHOICES = frozenset(("checkbox", "comboBox", "date", "dropDownList", "picture", "docPartObj", "docPartList"))
"""Kinds of content controls whose content is not written by hand."""
PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")


def named(names: str) -> frozenset[str]:
    """Returns the tags with these names."""
    return frozenset(W + name for name in names.split())


TAGS = RunTags(
    run=W + "r",
    properties=W + "rPr",
    text=W + "t",
    first=W + "pPr",
    starts=named("bookmarkStart commentRangeStart permStart"),
    ends=named("bookmarkEnd commentRangeEnd permEnd"),
    gaps=named("tab br cr ptab"),
    containers=named("hyperlink ins smartTag moveTo"),
    ignored=named("proofErr"),
    invisible=named("lang noProof proofErr"),
    spaces=True,
)


def read(data: bytes, target: str) -> Document:
    """Reads a .docx file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    archive.require("word/document.xml")
    parts = [name for name in archive.names if PARTS.fullmatch(name)]
    return office_document(archive, parts, lambda root: ((element, WordParagraph) for element in root.iter(W + "p")))


class WordParagraph(RunParagraph):
    """A paragraph with content controls and with fields, which are several runs from the first to the last mark."""

    def __init__(self, element: Element) -> None:
        self._field: list[Element] = []
        self._depth = 0
        super().__init__(element, TAGS)
        if self._field:  # the field ends in a later paragraph
            self.inline.atom(self._field)

    def add(self, child: Element, top: bool) -> None:
        marks = [mark.get(W + "fldCharType") for mark in child.iter(W + "fldChar")] if child.tag == TAGS.run else []
        if marks or (self._field and child.tag not in TAGS.starts | TAGS.ends):
            self._depth += marks.count("begin") - marks.count("end")
            self._field.append(child)
            if self._depth <= 0 and child.tag == TAGS.run:
                self.inline.atom(self._field)
                self._field, self._depth = [], 0
        elif child.tag == W + "sdt" and (content := self.content(child)) is not None:
            for inner in content:  # without the control, which could replace the translation by its data
                self.add(inner, top)
        else:
            super().add(child, top)

    def add_words(self, text: str) -> None:
        self.inline.text(text)

    def content(self, element: Element) -> Element | None:
        """Returns also the content of a content control that people write in."""
        if element.tag != W + "sdt":
            return super().content(element)
        kinds = {etree.QName(kind).localname for kind in element.iterfind(W + "sdtPr/*")}
        return element.find(W + "sdtContent") if kinds.isdisjoint(CHOICES) else None
