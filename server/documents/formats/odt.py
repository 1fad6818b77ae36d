"""Reads OpenDocument texts (.odt), presentations (.odp) and spreadsheets (.ods): the paragraphs and headings, also of
headers, footers, notes, cells and comments."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from server.documents.document import Document, has_words
from server.documents.formats.office import read_properties
from server.documents.formats.xml_inline import Element, Inline, append_text, parse_xml, rebuild, write_xml
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
    roots = {name: parse_xml(archive.part(name)) for name in PARTS if name in archive.names}
    found: list[Element] = []
    texts: list[str] = []
    for element in (paragraph for root in roots.values() for paragraph in root.iter(*PARAGRAPHS)):
        inline = to_inline(element)
        if has_words(inline.words):
            found.append(element)
            texts.append(inline.html)

    properties = read_properties(archive, roots)

    def write(translations: Sequence[str]) -> bytes:
        properties.write(translations[len(texts) :])
        # Backwards, because a note within a paragraph contains paragraphs, which must be filled before it is moved.
        for paragraph, translated in zip(reversed(found), reversed(translations[: len(texts)]), strict=True):
            inline = to_inline(paragraph)
            for child in list(paragraph):
                paragraph.remove(child)
            paragraph.text = None
            rebuild(paragraph, translated, inline, append_text)
        return archive.replaced({name: write_xml(root) for name, root in {**roots, **properties.roots}.items()})

    return Document((*texts, *properties.texts), "html", write)


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
