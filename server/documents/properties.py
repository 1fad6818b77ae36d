"""The texts of an office file that are not in its paragraphs: properties of the document, and alternative texts of
pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from server.documents.document import has_words
from server.documents.xml_files import Element, parse_xml
from server.documents.xml_inline import plain
from server.documents.zip_archive import Archive
from server.text.html_passages import escape

DC = "{http://purl.org/dc/elements/1.1/}"
PARTS = ("docProps/core.xml", "meta.xml")
LABELS = ("descr", "title")
"""Attributes with the alternative text of a picture, in the formats of Microsoft."""
SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
ALTERNATIVES = (SVG + "title", SVG + "desc")
"""Elements with the alternative text of a picture, in OpenDocument."""
TITLES = (DC + "title", DC + "subject", DC + "description")


@dataclass(frozen=True, slots=True)
class Properties:
    """Texts with the element of each and the name of its attribute, None for the content. `roots` are the parts of the
    archive that contain the properties of the document."""

    texts: tuple[str, ...]
    places: tuple[tuple[Element, str | None], ...]
    roots: Mapping[str, Element]

    def write(self, translations: Sequence[str]) -> None:
        """Replaces the texts by their translations."""
        for (element, name), translated in zip(self.places, translations, strict=True):
            text = plain(translated)
            if name is None:
                element.text = text
            else:
                element.set(name, text)


def read_properties(archive: Archive, roots: Mapping[str, Element]) -> Properties:
    """Reads title, subject and description of a document, and the alternative texts in the parts `roots`."""
    own = {name: parse_xml(archive.part(name)) for name in PARTS if name in archive.names}
    places: list[tuple[Element, str | None]] = [
        (element, None) for root in own.values() for element in root.iter(*TITLES) if has_words(element.text or "")
    ]
    for root in roots.values():
        for element in root.iter("{*}docPr", "{*}cNvPr"):
            places += [(element, name) for name in LABELS if has_words(element.get(name, ""))]
        places += [(element, None) for element in root.iter(*ALTERNATIVES) if has_words(element.text or "")]
    texts = [element.text if name is None else element.get(name) for element, name in places]
    return Properties(tuple(escape(text) for text in texts), tuple(places), own)
