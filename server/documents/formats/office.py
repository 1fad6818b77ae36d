"""What office files have in common: paragraphs that consist of runs, properties of the document, alternative texts of
pictures.

Runs with the most frequent formatting of their paragraph become plain text, other runs become inline elements, and
everything else is moved like a word. Word files (`server.documents.formats.docx`) have fields that span runs in addition.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from lxml import etree

from server.documents.document import Document, has_words
from server.documents.formats.xml_inline import Element, Inline, parse_xml, plain, rebuild, write_xml
from server.documents.zip_archive import Archive
from server.text.markup.passages import escape

SPACE = "{http://www.w3.org/XML/1998/namespace}space"
Paragraph = TypeVar("Paragraph")


def office_document(
    archive: Archive,
    parts: Iterable[str],
    paragraphs: Callable[[Element], Iterable[Paragraph]],
    to_inline: Callable[[Paragraph], Inline],
    fill: Callable[[Paragraph, str], None],
    kept: frozenset[str] = frozenset(),
) -> Document:
    """Reads the paragraphs of these parts and the document's properties. Texts in `kept` are not translated. `fill` replaces
    the content of a paragraph by a translation of its HTML."""
    roots = {name: parse_xml(archive.part(name)) for name in parts}
    translated_paragraphs: list[Paragraph] = []
    texts: list[str] = []
    for paragraph in (paragraph for root in roots.values() for paragraph in paragraphs(root)):
        inline = to_inline(paragraph)
        if has_words(inline.words) and inline.words not in kept:
            translated_paragraphs.append(paragraph)
            texts.append(inline.html)
    properties = read_properties(archive, roots)

    def write(translations: Sequence[str]) -> bytes:
        properties.write(translations[len(texts) :])
        # Backwards, because a text box or a note within a paragraph contains paragraphs, which must be filled before it is
        # moved.
        for paragraph, text in zip(reversed(translated_paragraphs), reversed(translations[: len(texts)]), strict=True):
            fill(paragraph, text)
        return archive.replaced({name: write_xml(root) for name, root in {**roots, **properties.roots}.items()})

    return Document((*texts, *properties.texts), "html", write)


@dataclass(frozen=True, slots=True)
class Names:
    """The tags of a format: run, its properties, its text, line break; elements that stay at the beginning and the end of a
    paragraph; attributes and elements of properties that do not change the appearance; and whether a text must say that
    the white space at its edges counts."""

    run: str
    properties: str
    text: str
    gap: str = ""
    first: str = ""
    last: frozenset[str] = frozenset()
    invisible: frozenset[str] = frozenset()
    spaces: bool = False


def to_inline(paragraph: Element, names: Names) -> Inline:
    """Returns the content of a paragraph as HTML."""
    inline = Inline()
    base = most_frequent(paragraph.iterchildren(names.run), names)
    plain = appearance(base, names)
    for child in paragraph:
        if child.tag == names.run:
            text = "".join(piece.text or "" for piece in child.iterchildren(names.text))
            properties = child.find(names.properties)
            if appearance(properties, names) == plain:
                add_lines(inline, text)
            else:
                number = inline.open(new_run(names.run, properties))
                add_lines(inline, text)
                inline.close(number)
        elif child.tag == names.text:  # a cell without runs
            add_lines(inline, child.text or "")
        elif child.tag == names.gap:
            inline.gap([child])
        elif child.tag != names.first and child.tag not in names.last:
            inline.atom([child])
    inline.keep_formulas(partial(add_text, base=base, names=names))
    return inline


def add_lines(inline: Inline, text: str) -> None:
    """Adds the text of a run, which in a cell has line ends."""
    for number, line in enumerate(text.split("\n")):
        if number:
            inline.line_end()
        inline.text(line)


def fill(paragraph: Element, translated: str, names: Names) -> None:
    """Replaces the content of a paragraph by a translation of its HTML."""
    inline = to_inline(paragraph, names)
    base = most_frequent(paragraph.iterchildren(names.run), names)
    single = next(paragraph.iterchildren(names.text), None)
    last = [child for child in paragraph if child.tag in names.last]
    for child in list(paragraph):
        if child.tag != names.first:
            paragraph.remove(child)
    if single is not None:
        text = etree.SubElement(paragraph, names.text)
        rebuild(text, translated, inline, add_characters)
        text.set(SPACE, "preserve")
    else:
        rebuild(paragraph, translated, inline, partial(add_text, base=base, names=names))
    paragraph.extend(last)


def most_frequent(runs: Iterable[Element], names: Names) -> Element | None:
    """Returns the properties of the appearance with the largest number of characters in these runs."""
    sizes: Counter[bytes] = Counter()
    examples: dict[bytes, Element | None] = {}
    for run in runs:
        properties = run.find(names.properties)
        seen = appearance(properties, names)
        examples.setdefault(seen, properties)
        sizes[seen] += sum(len(piece.text or "") for piece in run.iterchildren(names.text))
    return examples[sizes.most_common(1)[0][0]] if sizes else None


def appearance(properties: Element | None, names: Names) -> bytes:
    """Returns the visible properties of a run in a form that can be compared."""
    if properties is None:
        return b""
    attributes = sorted((name, value) for name, value in properties.items() if name not in names.invisible)
    children = b"".join(
        etree.tostring(child, with_tail=False) for child in properties if child.tag not in names.invisible
    )
    return repr(attributes).encode() + children if attributes or children else b""


def new_run(tag: str, properties: Element | None) -> Element:
    """Returns an empty run with these properties."""
    run = etree.Element(tag)
    if properties is not None:
        run.append(copy.deepcopy(properties))
    return run


def add_text(parent: Element, text: str, base: Element | None, names: Names) -> None:
    """Adds text at the end of a run, or in a new run with the properties `base` if `parent` is not a run."""
    if not text:
        return
    if parent.tag != names.run:
        run = new_run(names.run, base)
        parent.append(run)
        parent = run
    piece = next(parent.iterchildren(names.text), None)
    if piece is None:
        piece = etree.SubElement(parent, names.text)
    if names.spaces:
        piece.set(SPACE, "preserve")
    add_characters(piece, text)


def add_characters(parent: Element, text: str) -> None:
    """Adds text at the end of an element without children."""
    parent.text = (parent.text or "") + text


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
