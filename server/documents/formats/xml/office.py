"""Reads files of Microsoft Office and OpenDocument. Names of sheets, headers of tables and the
choices of a cell are kept, because formulas refer to them.

The parts of Microsoft Office are found by the relationships of the package (ECMA-376 part 2), not
by their names. Content controls of Word show data of other parts, which is translated there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from html import unescape
from typing import NamedTuple
from urllib.parse import unquote

from lxml import etree

from server.documents.document import Document, has_words
from server.documents.formats.xml.paragraph import Paragraph, Vocabulary, is_choice
from server.documents.formats.xml.parsing import Element, parse_xml, valid_text, write_xml
from server.documents.formats.xml.vocabularies import (
    LABELS,
    MARGINS,
    NUMBERS,
    OFFICE_PARAGRAPHS,
    OPEN_PARAGRAPHS,
    PLAIN,
)
from server.documents.zip_archive import Archive
from server.text.syntax.html import Builder
from server.text.tagged import Tagged
from server.translation.coded_text import coded, written

KINDS = frozenset(
    "header footer footnotes endnotes comments slide slideMaster slideLayout notesSlide chart "
    "chartEx chartUserShapes diagramData diagramDrawing drawing glossaryDocument sharedStrings "
    "threadedComment customXml table worksheet chartsheet dialogsheet".split()
)
"""Kinds of parts that are read: the last words of the types of relationships."""
SHEET_WITH_TEXT = re.compile(rb"inlineStr|dataValidation |headerFooter|tooltip=")
CHOICES = re.compile(rb"<(?:\w+:)?formula1>\s*(?:\"|&quot;)([^<]*?)(?:\"|&quot;)\s*</")
"""The choices of a cell, if they are in the rule itself."""
MARGIN_CODE = re.compile(r'(&(?:"[^"]*"|K[0-9A-F]{6}|K\d\d[+\-]\d{3}|\d+|.))', re.DOTALL)
"""A code of a header (ECMA-376 part 1, 18.3.1.46)."""
OPEN_DOCUMENT_PART = re.compile(r"(?:[^/]+/)?content\.xml|styles\.xml|meta\.xml")
"""Parts with text, also of objects such as charts."""
MAIN = frozenset(("document", "presentation", "workbook"))
PATH = re.compile(r"(?:/(?:[\w.-]+:)?[\w.-]+(?:\[\d{1,9}\])?){1,100}")
"""A path from the root to one element. Other XPath expressions could take long."""
PREFIX = re.compile(r"xmlns:([\w.-]+)=['\"]([^'\"]*)['\"]")


class SheetMargin:
    """A header or footer of printed sheets: `&L`, `&C` and `&R` separate texts, others are codes."""

    def __init__(self, element: Element) -> None:
        self.element = element
        builder = Builder()
        for number, part in enumerate(MARGIN_CODE.split(element.text or "")):
            if number % 2 == 0 or part == "&&":
                builder.text(part[number % 2 :], part)
            else:
                builder.code(part, part[1] in "LCR", "img")
        self.tagged = builder.tagged("")

    def fill(self, translated: str) -> None:
        self.element.text = written(
            translated, self.tagged.codes, lambda text: valid_text(text).replace("&", "&&")
        )


class Label(NamedTuple):
    """A plain text in an attribute, or in the element itself (None)."""

    element: Element
    name: str | None = None

    @property
    def tagged(self) -> Tagged:
        text = self.element.text if self.name is None else self.element.get(self.name)
        return Tagged(" ".join((text or "").split()))

    def fill(self, translated: str) -> None:
        text = valid_text(translated)
        if self.name is None:
            self.element.text = text
        else:
            self.element.set(self.name, text)


Reader = Callable[[], Paragraph | SheetMargin | Label]
"""Reads a text when it is needed, because all texts at once need much memory."""
PROMPT = "{*}nvSpPr/{*}nvPr/{*}ph"


def read(data: bytes, target: str) -> Document:
    """Reads an Office Open XML file."""
    archive = Archive(data)
    parts = parts_by_kind(archive)
    kept: set[str] = set()
    with_text: list[str] = []
    for part, kind in parts.items():
        if kind == "table":
            kept.update(
                column.get("name", "")
                for column in parse_xml(archive.part(part)).iter("{*}tableColumn")
            )
        elif kind == "worksheet":
            content = archive.part(part)
            for items in CHOICES.findall(content):
                kept.update(map(str.strip, unescape(items.decode(errors="replace")).split(",")))
            if SHEET_WITH_TEXT.search(content):
                with_text.append(part)
        elif kind != "customXml":
            with_text.append(part)
    return read_parts(archive, with_text, kept, parts)


def read_open_document(data: bytes, target: str) -> Document:
    """Reads an OpenDocument file."""
    archive = Archive(data)
    archive.require("content.xml")
    return read_parts(
        archive, filter(OPEN_DOCUMENT_PART.fullmatch, archive.names), tables=OPEN_PARAGRAPHS
    )


def read_parts(
    archive: Archive,
    parts: Iterable[str],
    kept: Collection[str] = (),
    package: Collection[str] = (),
    tables: Mapping[str, Vocabulary] = OFFICE_PARAGRAPHS,
) -> Document:
    """Reads parts of a package. Texts in `kept` are not translated."""
    roots = {name: parse_xml(archive.part(name), tables is OPEN_PARAGRAPHS) for name in parts}
    data, shown = bound_values(archive, package, roots.values())
    every = [reader for root in roots.values() for reader in find_texts(root, tables)]
    every += [partial(Label, element) for element in shown]
    readers: list[Reader] = []
    texts: list[str] = []
    for reader in every:
        tagged = reader().tagged
        if has_words(tagged.text) and tagged.text not in kept:
            readers.append(reader)
            texts.append(coded(tagged))

    def write(translations: Sequence[str]) -> bytes:
        changed: set[Element] = set()
        # backwards: the paragraphs of a text box are filled before the paragraph that holds it
        for reader, source, new in reversed(list(zip(readers, texts, translations, strict=True))):
            if new != source:
                text = reader()
                text.fill(new)
                changed.add(text.element.getroottree().getroot())
        return archive.replaced(
            {name: write_xml(root) for name, root in (roots | data).items() if root in changed}
        )

    return Document(tuple(texts), "coded", write)


def find_texts(root: Element, tables: Mapping[str, Vocabulary]) -> Iterator[Reader]:
    """Yields a reader of each text of a part. Prompts in masters and layouts are left out, because
    slides do not show them."""
    is_master = root.tag.endswith(("}sldMaster", "}sldLayout"))
    for element in root.iter(*tables, *MARGINS):
        if element.tag in MARGINS:
            yield partial(SheetMargin, element)
        elif not is_master or not any(
            shape.find(PROMPT) is not None for shape in element.iterancestors("{*}sp")
        ):
            yield partial(Paragraph, element, tables[element.tag])
    for tag, names in LABELS.items():
        yield from (partial(Label, element, name) for element in root.iter(tag) for name in names)
    for element in root.iter(*PLAIN):
        if next(element.iterancestors(*NUMBERS), None) is None:
            yield partial(Label, element)


def parts_by_kind(archive: Archive) -> dict[str, str]:
    """Returns the main part, the properties, and the related parts of KINDS, in the order of the
    archive, with their kinds. Raises InvalidRequest for another main part than MAIN."""
    parts: dict[str, str] = {}
    sources = [""]
    while sources:
        source = sources.pop()
        expected = KINDS if source else {"officeDocument", "core-properties"}
        for part, kind in related(archive, source):
            if part not in parts and kind in expected:
                parts[part] = kind
                sources.append(part)
    mains = [part for part, kind in parts.items() if kind == "officeDocument"]
    if not mains or etree.QName(parse_xml(archive.part(mains[0]))).localname not in MAIN:
        archive.require("")
    return {name: parts[name] for name in archive.names if name in parts}


def related(archive: Archive, source: str) -> Iterator[tuple[str, str]]:
    """Yields the parts related to a part, or to the package (""), with their kinds."""
    folder, _, file = source.replace("\\", "/").rpartition("/")
    relationships = archive.name_of(f"{folder}/_rels/{file}.rels")
    for relationship in (
        parse_xml(archive.part(relationships)).iter("{*}Relationship") if relationships else ()
    ):
        target = posixpath.normpath(
            posixpath.join("/", folder, unquote(relationship.get("Target", "")))
        )
        part = archive.name_of(target)
        if part and relationship.get("TargetMode") != "External":
            yield part, relationship.get("Type", "").rpartition("/")[2]


def bound_values(
    archive: Archive, parts: Iterable[str], roots: Iterable[Element]
) -> tuple[dict[str, Element], dict[Element, None]]:
    """Returns the data that content controls show, by part, and the elements that they show.
    Controls name a part by the id in its properties."""
    data: dict[str, Element] = {}
    shown: dict[Element, None] = {}
    bindings = [binding for root in roots for binding in root.iter("{*}dataBinding")]
    stores = {
        value.lower(): part
        for part in (parts if bindings else ())
        for properties, kind in related(archive, part)
        if kind == "customXmlProps"
        for name, value in parse_xml(archive.part(properties)).items()
        if name.endswith("}itemID")
    }
    for binding in bindings:
        w = binding.tag.removesuffix("dataBinding")
        name = stores.get(binding.get(w + "storeItemID", "").lower())
        path = binding.get(w + "xpath", "")
        if name is None or not PATH.fullmatch(path) or is_choice(binding.getparent()):
            continue
        if name not in data:
            data[name] = parse_xml(archive.part(name))
        prefixes = dict(PREFIX.findall(binding.get(w + "prefixMappings", "")))
        with suppress(etree.XPathError):  # a prefix that is not defined
            values = data[name].getroottree().xpath(path, namespaces=prefixes)
            shown |= dict.fromkeys(value for value in values[:1] if not len(value))
    return data, shown
