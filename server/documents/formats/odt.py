"""Reads OpenDocument texts (.odt), presentations (.odp) and spreadsheets (.ods): the paragraphs and headings, also of
headers, footers, notes, cells and comments."""

from __future__ import annotations

from lxml import etree

from server.documents.document import Document
from server.documents.formats.office import office_document
from server.documents.formats.xml_inline import Element, Inline, append_text, rebuild
from server.documents.zip_archive import Archive

TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
PARTS = ("content.xml", "styles.xml")
PARAGRAPHS = (TEXT + "p", TEXT + "h")
CONTAINERS = frozenset(TEXT + name for name in ("span", "a", "meta", "ruby-base"))
GAPS = frozenset(TEXT + name for name in ("tab", "line-break"))


def read(data: bytes) -> Document:
    """Reads an OpenDocument file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    archive.require("content.xml")
    parts = [name for name in PARTS if name in archive.names]
    return office_document(archive, parts, lambda root: root.iter(*PARAGRAPHS), to_inline, fill)


def fill(paragraph: Element, translated: str) -> None:
    """Replaces the content of a paragraph by a translation of its HTML."""
    inline = to_inline(paragraph)
    for child in list(paragraph):
        paragraph.remove(child)
    paragraph.text = None
    rebuild(paragraph, translated, inline, append_text)


def to_inline(paragraph: Element) -> Inline:
    """Returns the content of a paragraph as HTML."""
    inline = Inline()
    add_content(inline, paragraph, top=True)
    inline.keep_formulas(append_text, TEXT + "span")
    return inline


def add_content(inline: Inline, parent: Element, top: bool) -> None:
    """Adds the content of an element. `top` is True for the paragraph itself, where a line break separates
    sentences."""
    inline.text(parent.text or "")
    for child in parent:
        tail = child.tail
        if child.tag in CONTAINERS:
            number = inline.open(etree.Element(child.tag, child.attrib, child.nsmap))
            add_content(inline, child, top=False)
            inline.close(number)
        elif child.tag == TEXT + "s":
            inline.text(" ")
        elif child.tag != TEXT + "soft-page-break":
            (inline.gap if top and child.tag in GAPS else inline.atom)([child])
        inline.text(tail or "")
