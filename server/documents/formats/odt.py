"""Reads OpenDocument texts (.odt), presentations (.odp) and spreadsheets (.ods): the paragraphs and headings, also of
headers, footers, notes, cells and comments."""

from __future__ import annotations

from server.documents.document import Document
from server.documents.formats.office import office_document
from server.documents.formats.xml_inline import Element, Inline, Kind, add_mixed, append_text, rebuild
from server.documents.zip_archive import Archive

TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
PARTS = ("content.xml", "styles.xml", "meta.xml")
KINDS: dict[str, Kind] = {
    "span": "container",
    "a": "container",
    "meta": "container",
    "ruby-base": "container",
    "tab": "gap",
    "line-break": "gap",
    "s": "space",
    "soft-page-break": "nothing",
}


def read(data: bytes, target: str) -> Document:
    """Reads an OpenDocument file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    archive.require("content.xml")
    parts = [name for name in PARTS if name in archive.names]
    return office_document(archive, parts, {TEXT + "p": TextParagraph, TEXT + "h": TextParagraph})


class TextParagraph:
    """A paragraph or a heading."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.inline = Inline()
        add_mixed(self.inline, element, kind_of)
        self.inline.keep_formulas(append_text, TEXT + "span")

    def fill(self, translated: str) -> None:
        """Replaces the content."""
        for child in list(self.element):
            self.element.remove(child)
        self.element.text = None
        rebuild(self.element, translated, self.inline, append_text)


def kind_of(element: Element) -> Kind:
    """Returns what an element within a paragraph is."""
    tag = element.tag
    return KINDS.get(tag.removeprefix(TEXT), "atom") if isinstance(tag, str) and tag.startswith(TEXT) else "atom"
