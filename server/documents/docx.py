"""Word files (.docx): the paragraphs of the text, of headers, footers and notes.

A paragraph is runs of text with their properties. Runs that look like most of the paragraph become plain words, others
keep their properties around their words. Fields and deleted text stay as they are.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

from lxml import etree

from server.documents.document import Document, has_words
from server.documents.xml_inline import Element, Inline, parse_xml, rebuild, write_xml
from server.documents.zip_archive import Archive

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
CONTAINERS = frozenset(W + name for name in ("hyperlink", "ins", "smartTag", "moveTo"))
STARTS = frozenset(W + name for name in ("bookmarkStart", "commentRangeStart", "permStart"))
ENDS = frozenset(W + name for name in ("bookmarkEnd", "commentRangeEnd", "permEnd"))
GAPS = frozenset(W + name for name in ("tab", "br", "cr", "ptab"))
UNSEEN = frozenset(W + name for name in ("lang", "noProof", "proofErr"))
"""Properties that do not change how a run looks."""


def read(data: bytes) -> Document:
    """The document in a .docx file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    archive.part("word/document.xml")
    roots = {name: parse_xml(archive.part(name)) for name in archive.names if PARTS.fullmatch(name)}
    paragraphs = [paragraph for root in roots.values() for paragraph in root.iter(W + "p")]
    # All are cut up before any is filled: a paragraph may lie in a text box within another.
    found = [cut for cut in map(Paragraph, paragraphs) if has_words(cut.inline.words)]

    def write(translations: Sequence[str]) -> bytes:
        for paragraph, translated in zip(found, translations, strict=True):
            paragraph.fill(translated)
        return archive.replaced({name: write_xml(root) for name, root in roots.items()})

    return Document(tuple(paragraph.inline.html for paragraph in found), "html", write)


class Paragraph:
    """One paragraph as HTML; `fill` puts a translation in its place."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.inline = Inline()
        self._starts: list[Element] = []
        self._ends: list[Element] = []
        self._moves: list[tuple[Element, Element]] = []
        self._base = most_used(element)
        self._field: list[Element] = []
        self._depth = 0
        self._add(element, top=True)
        if self._field:  # a field that ends in a later paragraph
            self.inline.atom(self._field)

    def fill(self, translated: str) -> None:
        """Replaces the content. Ranges (bookmarks, comments) then span the whole paragraph, as their words moved."""
        for run, child in self._moves:
            run.append(child)
        for child in list(self.element):
            if child.tag != W + "pPr":
                self.element.remove(child)
        self.element.extend(self._starts)
        rebuild(self.element, translated, self.inline.elements, partial(add_text, base=self._base))
        self.element.extend(self._ends)

    def _add(self, parent: Element, top: bool) -> None:
        for child in parent:
            if child.tag == W + "r":
                self._run(child, top)
            elif child.tag in CONTAINERS and not self._field:
                shell = etree.Element(child.tag, child.attrib, child.nsmap)
                number = self.inline.open(shell)
                self._add(child, top=False)
                self.inline.close(number)
            elif child.tag in STARTS:
                self._starts.append(child)
            elif child.tag in ENDS:
                self._ends.append(child)
            elif self._field:
                self._field.append(child)
            elif child.tag not in (W + "pPr", W + "proofErr"):
                self.inline.atom([child])

    def _run(self, run: Element, top: bool) -> None:
        marks = [child.get(W + "fldCharType") for child in run.iter(W + "fldChar")]
        if marks or self._field:  # from the first mark of a field to its last nothing may move
            self._depth += marks.count("begin") - marks.count("end")
            self._field.append(run)
            if self._depth <= 0:
                self.inline.atom(self._field)
                self._field, self._depth = [], 0
            return
        properties = run.find(W + "rPr")
        plain = look(properties) == look(self._base)
        for child in run:
            if child.tag == W + "t":
                self._words(child.text or "", None if plain else made_run(properties))
            elif child is not properties:
                piece = made_run(properties)
                self._moves.append((piece, child))
                (self.inline.gap if top and child.tag in GAPS else self.inline.atom)([piece])

    def _words(self, text: str, shell: Element | None) -> None:
        if shell is None:
            self.inline.text(text)
            return
        number = self.inline.open(shell)
        self.inline.text(text)
        self.inline.close(number)


def most_used(paragraph: Element) -> Element | None:
    """The properties of the run look that has most of the paragraph's characters."""
    sizes: Counter[bytes] = Counter()
    examples: dict[bytes, Element | None] = {}
    for run in paragraph.iter(W + "r"):
        properties = run.find(W + "rPr")
        seen = look(properties)
        examples.setdefault(seen, properties)
        sizes[seen] += sum(len(text.text or "") for text in run.iterchildren(W + "t"))
    return examples[sizes.most_common(1)[0][0]] if sizes else None


def look(properties: Element | None) -> bytes:
    """What a reader sees of a run's properties, comparable."""
    if properties is None:
        return b""
    return b"".join(etree.tostring(child, with_tail=False) for child in properties if child.tag not in UNSEEN)


def made_run(properties: Element | None) -> Element:
    """An empty run with these properties."""
    run = etree.Element(W + "r")
    if properties is not None:
        run.append(copy.deepcopy(properties))
    return run


def add_text(parent: Element, text: str, base: Element | None) -> None:
    """Words at the end of a run, or in a run of their own."""
    if not text:
        return
    if parent.tag != W + "r":
        run = made_run(base)
        parent.append(run)
        parent = run
    element = etree.SubElement(parent, W + "t")
    element.text = text
    element.set(SPACE, "preserve")
