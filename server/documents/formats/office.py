"""What office files have in common: paragraphs, properties of the document, alternative texts of pictures.

A paragraph of Microsoft's formats consists of runs. Runs with the most frequent formatting of their paragraph become plain
text, other runs become inline elements, and everything else is moved like a word.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from lxml import etree

from server.documents.document import Document, has_words
from server.documents.formats.ooxml.content_controls import bound_values
from server.documents.formats.ooxml.package import prefixes
from server.documents.formats.xml_inline import Element, Inline, parse_xml, plain, rebuild, write_xml
from server.documents.zip_archive import Archive
from server.text.tagged import escaped

SPACE = "{http://www.w3.org/XML/1998/namespace}space"
DC = "{http://purl.org/dc/elements/1.1/}"
LABELS = ("descr", "title")
"""Attributes with the alternative text of a picture, in the formats of Microsoft."""
PROMPTS = ("promptTitle", "prompt", "errorTitle", "error")
"""Attributes with what a cell asks for, and says of a wrong value."""
SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
CHARTS = prefixes("drawingml", "chart")
CHARTS_2016 = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
PLAIN = (
    *(DC + name for name in ("title", "subject", "description")),
    *(SVG + name for name in ("title", "desc")),
    *(c + "v" for c in (*CHARTS, CHARTS_2016)),
    CHARTS_2016 + "pt",
    *(p + "text" for p in prefixes("presentationml", "main")),
    "{http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments}text",
)
"""Elements with plain text: properties of the document, alternative texts, series and categories of charts, comments."""
NUMBERS = frozenset(c + name for c in CHARTS for name in ("numCache", "numLit"))
"""Elements of charts whose values are numbers."""


class Paragraph(Protocol):
    """A paragraph as HTML. `fill` replaces its content by a translation."""

    inline: Inline

    def fill(self, translated: str) -> None: ...


def office_document(
    archive: Archive,
    parts: Iterable[str],
    readers: Mapping[str, Callable[[Element], Paragraph]],
    kept: frozenset[str] = frozenset(),
    data: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Reads the paragraphs and the labels of these parts. `readers` reads a paragraph, by its tag. Texts in `kept` are not
    translated. `data` are the parts with the values of content controls, by their ids."""
    stores = {id: parse_xml(archive.part(name)) for id, name in data.items()}
    roots = {name: parse_xml(archive.part(name)) for name in parts}
    translated_paragraphs: list[Element] = []
    texts: list[str] = []
    for element in (paragraph for root in roots.values() for paragraph in root.iter(*readers)):
        inline = readers[element.tag](element).inline
        words = plain(inline.html)
        if has_words(words) and words not in kept:
            translated_paragraphs.append(element)
            texts.append(inline.html)
    labels = [
        label
        for label in [*find_labels(roots.values()), *bound_values(roots.values(), stores)]
        if has_words(text_of(*label)) and text_of(*label) not in kept
    ]

    def write(translations: Sequence[str]) -> bytes:
        for (element, name), translated in zip(labels, translations[len(texts) :], strict=True):
            if name is None:
                element.text = plain(translated)
            else:
                element.set(name, plain(translated))
        # Backwards, because a text box or a note within a paragraph contains paragraphs, which must be filled before it is
        # moved.
        for element, text in zip(reversed(translated_paragraphs), reversed(translations[: len(texts)]), strict=True):
            readers[element.tag](element).fill(text)
        changed = {element.getroottree().getroot() for element, _ in labels}
        written = roots | {name: stores[id] for id, name in data.items() if stores[id] in changed}
        return archive.replaced({name: write_xml(root) for name, root in written.items()})

    return Document((*texts, *(escaped(text_of(*label)) for label in labels)), "html", write)


def find_labels(roots: Iterable[Element]) -> Iterator[tuple[Element, str | None]]:
    """Yields the elements with words outside paragraphs, and the attribute of each, None for its content."""
    for root in roots:
        yield from ((element, name) for element in root.iter("{*}docPr", "{*}cNvPr") for name in LABELS)
        yield from ((element, name) for element in root.iter("{*}dataValidation") for name in PROMPTS)
        yield from (
            (element, None) for element in root.iter(*PLAIN) if next(element.iterancestors(*NUMBERS), None) is None
        )


def text_of(element: Element, name: str | None) -> str:
    """Returns the text of a label."""
    return (element.text if name is None else element.get(name)) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTags:
    """The tags of a format with runs. `first` stays at the beginning of a paragraph, those of `ends` at its end. `gaps`
    are between sentences, `containers` around runs, where `settings` stay; `ignored` are dropped. `invisible` are attributes
    and elements of properties that do not change the appearance. With `spaces` a text must say that the white space at its
    edges counts."""

    run: str
    properties: str
    text: str
    first: str = ""
    ends: frozenset[str] = frozenset()
    gaps: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    invisible: frozenset[str] = frozenset()
    spaces: bool = False


class RunParagraph:
    """A paragraph of runs."""

    def __init__(self, element: Element, tags: RunTags) -> None:
        self.element = element
        self.inline = Inline()
        self.tags = tags
        self._ends: list[Element] = []
        self._moves: list[tuple[Element, Element]] = []
        self._base = self._most_frequent()
        self.add_children(element, top=True)
        self.inline.keep_formulas(self._add_text)

    def fill(self, translated: str) -> None:
        """Replaces the content."""
        for run, child in self._moves:
            run.append(child)
        tags, paragraph = self.tags, self.element
        without_runs = paragraph.find(tags.text) is not None
        for child in list(paragraph):
            if child.tag != tags.first:
                paragraph.remove(child)
        if without_runs:
            text = etree.SubElement(paragraph, tags.text)
            rebuild(text, translated, self.inline, add_characters)
            text.set(SPACE, "preserve")
        else:
            rebuild(paragraph, translated, self.inline, self._add_text)
        paragraph.extend(self._ends)

    def add_children(self, parent: Iterable[Element], top: bool) -> None:
        """Adds the children of the paragraph, or (not `top`) of a container."""
        for child in parent:
            self.add(child, top)

    def add(self, child: Element, top: bool) -> None:
        """Adds a child of the paragraph, or (not `top`) of a container."""
        tags = self.tags
        if child.tag == tags.run:
            self._add_run(child, top)
        elif (content := self.content(child)) is not None:
            number = self.inline.open(*self.shell(child))
            self.add_children(content, top=False)
            self.inline.close(number)
        elif child.tag in tags.ends:
            self._ends.append(child)
        elif child.tag == tags.text:  # a cell without runs
            self.add_words(child.text or "")
        elif child.tag in tags.gaps:
            self.inline.gap([child])
        elif child.tag != tags.first and child.tag not in tags.ignored | tags.settings:
            self.inline.atom([child])

    def add_words(self, text: str) -> None:
        """Adds text, in which line ends are between sentences."""
        for number, line in enumerate(text.split("\n")):
            if number:
                self.inline.gap(())
            self.inline.text(line)

    def runs(self, parent: Element) -> Iterator[Element]:
        """Yields the runs of a paragraph without those of text boxes within it."""
        for child in parent:
            if child.tag == self.tags.run:
                yield child
            elif (content := self.content(child)) is not None:
                yield from self.runs(content)

    def content(self, element: Element) -> Element | None:
        """Returns the element that contains the runs of a container, or None for another element."""
        return element if element.tag in self.tags.containers else None

    def shell(self, element: Element) -> tuple[Element, Element]:
        """Returns a copy of a container without its content, and the element in it that takes the content."""
        made = etree.Element(element.tag, element.attrib, element.nsmap)
        return made, made

    def _add_run(self, run: Element, top: bool) -> None:
        tags = self.tags
        properties = run.find(tags.properties)
        plain = self._appearance(properties) == self._appearance(self._base)
        for child in run:
            if child.tag == tags.text and plain:
                self.add_words(child.text or "")
            elif child.tag == tags.text:
                number = self.inline.open(new_run(tags.run, properties))
                self.add_words(child.text or "")
                self.inline.close(number)
            elif child is not properties:
                piece = new_run(tags.run, properties)
                self._moves.append((piece, child))
                (self.inline.gap if top and child.tag in tags.gaps else self.inline.atom)([piece])

    def _most_frequent(self) -> Element | None:
        """Returns the properties of the appearance with the largest number of characters in the runs."""
        sizes: Counter[bytes] = Counter()
        examples: dict[bytes, Element | None] = {}
        for run in self.runs(self.element):
            properties = run.find(self.tags.properties)
            seen = self._appearance(properties)
            examples.setdefault(seen, properties)
            sizes[seen] += sum(len(piece.text or "") for piece in run.iterchildren(self.tags.text))
        return examples[sizes.most_common(1)[0][0]] if sizes else None

    def _appearance(self, properties: Element | None) -> bytes:
        """Returns the visible properties of a run in a form that can be compared."""
        if properties is None:
            return b""
        invisible = self.tags.invisible
        attributes = sorted((name, value) for name, value in properties.items() if name not in invisible)
        children = b"".join(
            etree.tostring(child, with_tail=False) for child in properties if child.tag not in invisible
        )
        return repr(attributes).encode() + children if attributes or children else b""

    def _add_text(self, parent: Element, text: str) -> None:
        """Adds text at the end of a run, or in a new run with the most frequent properties if `parent` is not a run."""
        if not text:
            return
        if parent.tag != self.tags.run:
            run = new_run(self.tags.run, self._base)
            parent.append(run)
            parent = run
        if not len(parent) or parent[-1].tag != self.tags.text:
            etree.SubElement(parent, self.tags.text)
        if self.tags.spaces:
            parent[-1].set(SPACE, "preserve")
        add_characters(parent[-1], text)


def new_run(tag: str, properties: Element | None) -> Element:
    """Returns an empty run with these properties."""
    run = etree.Element(tag)
    if properties is not None:
        run.append(copy.deepcopy(properties))
    return run


def add_characters(parent: Element, text: str) -> None:
    """Adds text at the end of an element without children."""
    parent.text = (parent.text or "") + text
