"""Reads a paragraph of XML as a `Tagged`, and writes its translation. Runs with the most frequent
formatting of the paragraph are plain text, other runs are pairs around words, and all other
elements are codes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from lxml import etree

from server.documents.formats.xml.parsing import SAFE, Element, valid_text
from server.text.syntax.html import Builder
from server.translation.coded_text import pieces

LINE_END, PRESERVE = "\n", ' xml:space="preserve"'
PARSER = etree.XMLParser(**SAFE | {"huge_tree": True})
"""Parser of elements of files that were parsed within limits."""
NOTE = re.compile(r"[0-9+\-−]{1,4}")
"""A formatted number at the end of a word that may be that of a note."""
EDGE = re.compile(r"(?:Start|End|-start|-end)$|(?<=\})(?:[be](?=pt)|[se](?=c))")
"""The difference between the names of a start and of its end."""
NAME = re.compile(r"(?:^|\})(?:id|rid|startRef|name)$")
FIELD_DEPTH = 5
"""Largest number of fields around one whose words are translated."""
CHOICES = frozenset(
    ("checkbox", "comboBox", "date", "dropDownList", "picture", "docPartObj", "docPartList")
)
"""Kinds of content controls whose content is not written by hand."""
LONGEST_WORD = 100
LETTERS = re.compile(r"[^\W\d_]+$")


class Vocabulary(NamedTuple):
    """The kinds of the elements in a paragraph by tag; elements of no kind are atoms.

    - "run": has `properties` and "text". Without runs the text is between the elements.
    - "container": has words, or a "content" with words and a "setting".
    - "start", "end": surround words, and have a common name.
    - "field", "control": containers if the field is a link, or the control is written by hand. A
      field may also be several runs from the first to the last `mark`.
    - "gap": separates sentences.
    - "space", "hyphen": are text.
    - "first", "last": stay at the beginning or the end of the paragraph.

    `invisible` are attributes and elements of properties without a visible effect. With `spaces` an
    attribute preserves spaces at the edges of a text. With `lines` a line end separates sentences.
    """

    kinds: dict[str, str]
    run: str = ""
    properties: str = ""
    text: str = ""
    mark: str = ""
    invisible: frozenset[str] = frozenset()
    spaces: bool = False
    lines: bool = True


class Paragraph:
    """The content of an element. `tagged` is its text with XML as the data of the codes."""

    def __init__(self, element: Element, vocabulary: Vocabulary) -> None:
        self.element, self.vocabulary = element, vocabulary
        self._builder, self._word = Builder(), ""
        self._starts: dict[Element, dict[object, bool]] = {}
        self._last: list[Element] = []
        self._fields_around = 0
        prefix = f"{element.prefix}:" if element.prefix else ""
        tags = vocabulary.run, vocabulary.text
        self._run, self._text = (tag and prefix + etree.QName(tag).localname for tag in tags)
        self._formats: set[str] = set()
        """The starts of runs around words."""
        self._base = self._most_frequent()
        self.add_children(element, top=True)
        self.tagged = self._builder.tagged("")

    def add_text(self, text: str) -> None:
        self._builder.text(text, text)
        self._word = (self._word + text)[-LONGEST_WORD:]

    def add_code(self, *elements: Element, raw: str = "", gap: bool = False) -> None:
        """Adds a code, which separates sentences if it is a `gap`."""
        self._word = ""
        self._builder.code(raw or xml_of(elements), gap, "br" if gap else "img")

    def add_edge(self, raw: str, key: object, end: bool = False) -> None:
        """Adds the start or the `end` of the pair with a key."""
        self._word = ""
        (self._builder.end if end else self._builder.start)(raw, "span", key)

    def fill(self, translated: str) -> None:
        """Replaces the content with a coded text."""
        element, vocabulary, codes = self.element, self.vocabulary, self.tagged.codes
        run, text = self._run, self._text
        before = after = ""
        if run and element.find(vocabulary.text) is None:
            before, after = self._run_start(self._base), f"</{run}>"
        parts: list[str] = []
        inside = not run
        written = [
            (each, "") if isinstance(each, str) else ("", str(codes[each].data))
            for each in pieces(translated)
        ]
        for is_text, group in groupby(written, lambda item: item[1] in ("", LINE_END)):
            if not is_text:
                for _, code in group:
                    inside = code in self._formats or (inside and code != f"</{run}>")
                    parts.append(code)
                continue
            words = escape(valid_text("".join(map("".join, group))))
            if run:
                words = f"<{text}{PRESERVE if vocabulary.spaces else ''}>{words}</{text}>"
            parts += (words,) if inside else (before, words, after)
        made = etree.fromstring("".join(parts).join(tags_of(element)), PARSER)
        element.text = made.text
        element[:] = [
            *(child for child in element if self.kind(child) == "first"),
            *made,
            *self._last,
        ]

    def add_children(self, parent: Element, top: bool) -> None:
        """Adds the children of the paragraph (`top`) or of a container."""
        if self.vocabulary.mark:
            self._add_fields(parent, top)
            return
        if not self.vocabulary.run:
            self.add_text(parent.text or "")
        for child in parent:
            self.add(child, top)
            if not self.vocabulary.run:
                self.add_text(child.tail or "")

    def _add_fields(self, children: Iterable[Element], top: bool) -> None:
        """Adds children, those of a field together. A field may end in a later paragraph."""
        field: list[Element] = []
        depth = middle = 0  # `middle`: the number of children before the words of the field, or 0
        for child in children:
            marks = self._marks(child)
            depth += marks.count("begin") - marks.count("end")
            field.append(child)
            if depth == 1 and not middle and marks == ["separate"]:
                middle = len(field)
            if depth <= 0:
                if len(field) > 1 or marks:
                    self._add_field(field, middle, True, top)
                else:
                    self.add(child, top)
                field, depth, middle = [], 0, 0
        if field:
            self._add_field(field, middle, False, top)

    def _marks(self, element: Element) -> list[str]:
        """Returns the marks of fields in a run: "begin", "separate", "end"."""
        mark = self.vocabulary.mark
        marks = element.iterchildren(mark) if element.tag == self.vocabulary.run else ()
        return [each.get(mark + "Type") for each in marks]

    def _add_field(self, field: Sequence[Element], middle: int, ended: bool, top: bool) -> None:
        """Adds a field. Words are translated in links and in fields that end in a later paragraph,
        such as a table of contents."""
        instruction = "".join(
            text for run in field[:middle] for text in run.itertext("{*}instrText")
        )
        if not middle or self._fields_around > FIELD_DEPTH or (ended and not is_link(instruction)):
            self.add_code(*field)
            return
        self._fields_around += 1
        if ended and self._marks(field[-1]) == ["end"]:
            self.add_edge(xml_of(field[:middle]), field[0])
            self._add_fields(field[middle:-1], top=False)
            self.add_edge(xml_of(field[-1:]), field[0], end=True)
        else:
            self.add_code(*field[:middle])
            self._add_fields(field[middle:], top)
        self._fields_around -= 1

    def add(self, child: Element, top: bool) -> None:
        """Adds a child of the paragraph (`top`) or of a container."""
        kind = self.kind(child)
        if kind == "run":
            self._add_run(child, top)
        elif kind == "container":
            self._add_container(child)
        elif kind == "last":
            self._last.append(child)
        elif kind in ("start", "end"):
            self._add_edge(child, kind)
        elif kind == "text":  # a cell without runs
            self.add_words(child.text or "")
        elif kind == "space":
            self.add_text(" ")
        elif kind in ("gap", "atom"):
            self.add_code(child, gap=kind == "gap" and top)

    def _add_container(self, child: Element, before: str = "", after: str = "") -> None:
        """Adds a container, which may be in a run with this start and end."""
        inner = next((part for part in child if self.kind(part) == "content"), child)
        start, end = tags_of(inner)
        start += xml_of(part for part in inner if self.kind(part) == "setting")
        if inner is not child:
            around = tags_of(child)
            start = around[0] + xml_of(reversed(list(inner.itersiblings(preceding=True)))) + start
            end += xml_of(inner.itersiblings()) + around[1]
        self.add_edge(before + start, child)
        self.add_children(inner, top=False)
        self.add_edge(end + after, child, end=True)

    def _add_edge(self, child: Element, kind: str) -> None:
        """Adds a start or an end. Pairs that overlap others become single codes."""
        ids = [value for name, value in child.items() if NAME.search(name)]
        key = (child.getparent(), EDGE.sub("", child.tag), *ids[-1:])
        starts = self._starts.setdefault(key[0], {})
        is_nested = kind == "start" or next(reversed(starts), None) == key
        starts.pop(key, None)
        if kind == "start":
            starts[key] = True
        if is_nested:
            self.add_edge(xml_of([child]), key, kind == "end")
        else:
            self.add_code(child)

    def kind(self, element: Element) -> str:
        """Returns the kind of an element (`Vocabulary`), with fields and controls resolved to
        containers and atoms, and untranslatable containers to atoms."""
        kind = self.vocabulary.kinds.get(element.tag, "atom")
        if kind == "field":
            links = [is_link(value) for name, value in element.items() if name.endswith("instr")]
            return "container" if any(links) else "atom"
        if kind == "control":
            has_content = element.find("{*}sdtContent") is not None
            is_written = has_content and not is_choice(element.iterfind("{*}sdtPr/*"))
            return "container" if is_written else "atom"
        if kind == "container" and (
            element.get("translate") == "no" or element.get("mtype") == "protected"
        ):
            return "atom"
        return kind

    def add_words(self, text: str) -> None:
        """Adds text, in which line ends may separate sentences."""
        for number, line in enumerate(text.split("\n") if self.vocabulary.lines else (text,)):
            if number:
                self.add_code(raw=LINE_END, gap=True)
            self.add_text(line)

    def _add_run(self, run: Element, top: bool) -> None:
        properties = run.find(self.vocabulary.properties)
        plain = self._appearance(properties) == self._appearance(self._base)
        for child in run:
            kind = self.kind(child)
            words = "\u2011" if kind == "hyphen" else child.text or ""
            is_text = kind in ("text", "hyphen")
            if is_text and plain:
                self.add_words(words)
            elif child is properties or kind == "dropped":
                continue
            else:
                start, end = self._run_start(properties), f"</{self._run}>"
                if is_text and not self._is_note(words):
                    self._formats.add(start)
                    self.add_edge(start, child)
                    self.add_words(words)
                    self.add_edge(end, child, end=True)
                elif kind == "container":
                    self._add_container(child, start, end)
                else:
                    self.add_code(raw=start + xml_of([child]) + end, gap=kind == "gap" and top)

    def _run_start(self, properties: Element | None) -> str:
        return f"<{self._run}>{'' if properties is None else xml_of([properties])}"

    def _runs(self, parent: Element) -> Iterator[Element]:
        """Yields the runs of a paragraph without those of text boxes in it."""
        for child in parent:
            if (kind := self.kind(child)) == "run":
                yield child
            elif kind in ("container", "content"):
                yield from self._runs(child)

    def _most_frequent(self) -> Element | None:
        """Returns the properties of the appearance with the most characters."""
        sizes: Counter[str] = Counter()
        examples: dict[str, Element | None] = {"": None}
        for run in self._runs(self.element):
            properties = run.find(self.vocabulary.properties)
            examples.setdefault(seen := self._appearance(properties), properties)
            sizes[seen] += sum(
                len(piece.text or "") for piece in run.iterchildren(self.vocabulary.text)
            )
        return examples[max(sizes, key=sizes.__getitem__, default="")]

    def _appearance(self, properties: Element | None) -> str:
        """Returns the visible properties of a run as a comparable text."""
        if properties is None:
            return ""
        invisible = self.vocabulary.invisible
        attributes = sorted(
            (name, value) for name, value in properties.items() if name not in invisible
        )
        children = xml_of(child for child in properties if child.tag not in invisible)
        return f"{attributes}{children}" if attributes or children else ""

    def _is_note(self, text: str) -> bool:
        """Returns whether a formatted text is the number of a note at the end of a word, and not
        part of a unit, variable or formula (m², x₁, CaCO₃)."""
        letters = LETTERS.search(self._word)
        word = letters[0] if letters and NOTE.fullmatch(text) else ""
        return len(word) > 2 and not any(map(str.isupper, word[1:]))


def xml_of(elements: Iterable[Element]) -> str:
    """Returns elements as XML without their tails."""
    return "".join(etree.tostring(each, encoding="unicode", with_tail=False) for each in elements)


def tags_of(element: Element) -> tuple[str, str]:
    """Returns the start tag and the end tag of an element."""
    shell = etree.Element(element.tag, element.attrib, element.nsmap)
    shell.text = "|"
    start, _, end = xml_of([shell]).rpartition("|")
    return start, end


def is_choice(properties: Iterable[Element]) -> bool:
    """Returns whether the content of a control with these properties is not written by hand."""
    return not CHOICES.isdisjoint(
        etree.QName(kind).localname for kind in properties if isinstance(kind.tag, str)
    )


def is_link(instruction: str) -> bool:
    """Returns whether a field is a link."""
    return instruction.split()[:1] == ["HYPERLINK"]
