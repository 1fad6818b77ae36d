"""Reads Word files (.docx): the paragraphs of the text, of headers, footers and notes.

A paragraph consists of runs: text with formatting properties. Runs with the most frequent formatting of the paragraph
become plain text; other runs become inline elements and keep their formatting. Fields and deleted text are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from lxml import etree

from server.documents.document import Document
from server.documents.formats.office import SPACE, Names, appearance, most_frequent, new_run, office_document
from server.documents.formats.xml_inline import Element, Inline, rebuild
from server.documents.zip_archive import Archive

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
CONTAINERS = frozenset(W + name for name in ("hyperlink", "ins", "smartTag", "moveTo"))
CHOICES = frozenset(("checkbox", "comboBox", "date", "dropDownList", "picture", "docPartObj", "docPartList"))
"""Kinds of content controls whose content is not written by hand."""
INVISIBLE = frozenset(W + name for name in ("lang", "noProof", "proofErr"))
"""Properties that do not change the appearance of a run."""
PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
STARTS = frozenset(W + name for name in ("bookmarkStart", "commentRangeStart", "permStart"))
ENDS = frozenset(W + name for name in ("bookmarkEnd", "commentRangeEnd", "permEnd"))
GAPS = frozenset(W + name for name in ("tab", "br", "cr", "ptab"))
RUN = Names(W + "r", W + "rPr", W + "t", invisible=INVISIBLE)


def read(data: bytes) -> Document:
    """Reads a .docx file. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    archive.require("word/document.xml")
    return office_document(
        archive,
        [name for name in archive.names if PARTS.fullmatch(name)],
        lambda root: root.iter(W + "p"),
        lambda element: Paragraph(element).inline,
        lambda element, translated: Paragraph(element).fill(translated),
    )


class Paragraph:
    """One paragraph as HTML. `fill` replaces its content with a translation."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.inline = Inline()
        self._starts: list[Element] = []
        self._ends: list[Element] = []
        self._moves: list[tuple[Element, Element]] = []
        self._base = most_frequent(own_runs(element), RUN)
        self._field: list[Element] = []
        self._depth = 0
        self._add(element, top=True)
        if self._field:  # the field ends in a later paragraph
            self.inline.atom(self._field)
        self.inline.keep_formulas(partial(add_text, base=self._base))

    def fill(self, translated: str) -> None:
        """Replaces the content. Bookmarks and comments then cover the whole paragraph, because their words have
        moved."""
        for run, child in self._moves:
            run.append(child)
        for child in list(self.element):
            if child.tag != W + "pPr":
                self.element.remove(child)
        self.element.extend(self._starts)
        rebuild(self.element, translated, self.inline, partial(add_text, base=self._base))
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
            elif (content := written_content(child)) is not None and not self._field:
                self._add(content, top)  # without the control, which could replace the translation by its data
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
        if marks or self._field:  # everything from the first to the last mark of a field is kept together
            self._depth += marks.count("begin") - marks.count("end")
            self._field.append(run)
            if self._depth <= 0:
                self.inline.atom(self._field)
                self._field, self._depth = [], 0
            return
        properties = run.find(W + "rPr")
        plain = appearance(properties, RUN) == appearance(self._base, RUN)
        for child in run:
            if child.tag == W + "t":
                self._words(child.text or "", None if plain else new_run(W + "r", properties))
            elif child is not properties:
                piece = new_run(W + "r", properties)
                self._moves.append((piece, child))
                (self.inline.gap if top and child.tag in GAPS else self.inline.atom)([piece])

    def _words(self, text: str, shell: Element | None) -> None:
        if shell is None:
            self.inline.text(text)
            return
        number = self.inline.open(shell)
        self.inline.text(text)
        self.inline.close(number)


def own_runs(parent: Element) -> Iterator[Element]:
    """Yields the runs of a paragraph without those of text boxes within it."""
    for child in parent:
        if child.tag == W + "r":
            yield child
        elif child.tag in CONTAINERS:
            yield from own_runs(child)
        elif (content := written_content(child)) is not None:
            yield from own_runs(content)


def written_content(element: Element) -> Element | None:
    """Returns the content of a content control that people write in, or None for another element."""
    if element.tag != W + "sdt":
        return None
    kinds = {etree.QName(kind).localname for kind in element.iterfind(W + "sdtPr/*")}
    return element.find(W + "sdtContent") if kinds.isdisjoint(CHOICES) else None


def add_text(parent: Element, text: str, base: Element | None) -> None:
    """Adds text at the end of a run, or in a new run with the properties `base` if `parent` is not a run."""
    if not text:
        return
    if parent.tag != W + "r":
        run = new_run(W + "r", base)
        parent.append(run)
        parent = run
    element = etree.SubElement(parent, W + "t")
    element.text = text
    element.set(SPACE, "preserve")
