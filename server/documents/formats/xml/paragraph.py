"""A paragraph of XML as a `Tagged`, and its content from a translation. Runs with the most frequent formatting of their
paragraph are plain text, others are pairs around words. What else there is is a code, which is moved like a word: also the
fields of Word other than links, choices and deleted text."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from lxml import etree

from server.documents.formats.xml.parsing import Element, valid_text
from server.text.syntax.html import Builder
from server.translation.coded_text import pieces

Kind = Literal[
    "run", "text", "container", "field", "control", "content", "setting", "gap", "space", "first", "last", "start", "end",
    "dropped", "atom",
]  # fmt: skip
Role = Literal["atom", "gap", "open", "close", "start", "end"]
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
NOTE = re.compile(r"[0-9+\-−]{1,4}")
"""The formatted number at the end of a word that may be that of a note."""
EDGE = re.compile(r"(?:Start|End|-start|-end)$|(?<=\})(?:[be](?=pt)|[se](?=c))")
"""What the names of a start and of its end do not have in common."""
NAME = re.compile(r"(?:^|\})(?:id|rid|startRef|name)$")
FIELD_DEPTH = 5
"""Largest number of fields around one whose words are translated."""
CHOICES = frozenset(("checkbox", "comboBox", "date", "dropDownList", "picture", "docPartObj", "docPartList"))
"""Kinds of content controls whose content is not written by hand."""
LONGEST_WORD = 100
LETTERS = re.compile(r"[^\W\d_]+$")


class Vocabulary(NamedTuple):
    """What the elements in a paragraph are, by their tags; others are atoms.

    A "run" has `properties` and "text"; without runs the text is between the elements (mixed content). Words are in a
    "container", or in its "content" beside a "setting", or between a "start" and an "end" with one name. A "field" is a
    container if it is a link, a "control" if people write in it; a field may also be several runs from the first to the
    last `mark`. A "gap" is between sentences, a "space" is a space. The "first" one stays at the beginning of the
    paragraph, the "last" at its end. `invisible` are attributes and elements of properties that do not change the
    appearance. With `spaces` a text must say that the spaces at its edges count; with `lines` a line end in a text is
    between sentences.
    """

    kinds: dict[str, Kind]
    run: str = ""
    properties: str = ""
    text: str = ""
    mark: str = ""
    invisible: frozenset[str] = frozenset()
    spaces: bool = False
    lines: bool = True


class Original(NamedTuple):
    """Elements that a code stands for: one that moves like a word, a "gap" between sentences, the "start" or "end" of a pair
    beside the words, or one whose `inner` takes the words from "open" to "close". Those of a single code are put into a
    run, `inner`, if there is one."""

    role: Role
    elements: tuple[Element, ...] = ()
    inner: Element | None = None


class Paragraph:
    """The content of an element; `tagged` is its text, whose codes have the numbers of `originals`."""

    def __init__(self, element: Element, vocabulary: Vocabulary) -> None:
        self.element, self.vocabulary = element, vocabulary
        self.originals: list[Original] = []
        self._builder, self._word = Builder(), ""
        self._starts: dict[Element, dict[object, bool]] = {}
        self._last: list[Element] = []
        self._fields_around = 0
        self._base = self._most_frequent()
        self.add_children(element, top=True)
        self.tagged = self._builder.tagged("")

    def add_text(self, text: str) -> None:
        """Adds text."""
        self._builder.text(text, text)
        self._word = (self._word + text)[-LONGEST_WORD:]

    def add_code(self, role: Role, *elements: Element, inner: Element | None = None, key: object = "") -> None:
        """Adds a code that stands for elements. The ends of a pair have the same `key`."""
        self._word, number = "", f"{len(self.originals)} "
        self.originals.append(Original(role, elements, inner))
        if role in ("open", "start"):
            self._builder.start(number, "span", key)
        elif role in ("close", "end"):
            self._builder.end(number, "span", key)
        else:
            self._builder.code(number, role == "gap", "br" if role == "gap" else "img")

    def fill(self, translated: str) -> None:
        """Replaces the content with a coded text."""
        vocabulary, element = self.vocabulary, self.element
        if not vocabulary.run:
            element.text, element[:] = None, ()
            self._rebuild(element, translated)
            return
        without_runs = element.find(vocabulary.text) is not None
        element[:] = [child for child in element if self.kind(child) == "first"]
        if without_runs:
            element = etree.SubElement(element, vocabulary.text)
            element.set(SPACE, "preserve")
        self._rebuild(element, translated)
        self.element.extend(self._last)

    def add_children(self, parent: Element, top: bool) -> None:
        """Adds the children of the paragraph, or (not `top`) of a container."""
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
        """Adds children, those from the first to the last mark of a field together; it may end in a later paragraph."""
        field: list[Element] = []
        depth = middle = 0  # the number of the children before the words of the field (0: it has none)
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
        """Adds a field. The words of a link are translated, and those of a field that does not end here: a table of
        contents begins in its first line."""
        instruction = "".join(text for run in field[:middle] for text in run.itertext("{*}instrText"))
        if not middle or self._fields_around > FIELD_DEPTH or (ended and not is_link(instruction)):
            self.add_code("atom", *field)
            return
        self._fields_around += 1
        closes = ended and self._marks(field[-1]) == ["end"]
        self.add_code("start" if closes else "atom", *field[:middle], key=field[0])
        self._add_fields(field[middle : -1 if closes else None], top and not closes)
        if closes:
            self.add_code("end", field[-1], key=field[0])
        self._fields_around -= 1

    def add(self, child: Element, top: bool) -> None:
        """Adds a child of the paragraph, or (not `top`) of a container."""
        kind = self.kind(child)
        if kind == "run":
            self._add_run(child, top)
        elif kind == "container":
            inner = next((part for part in child if self.kind(part) == "content"), child)
            self.add_code("open", child, inner=inner)
            self.add_children(inner, top=False)
            self.add_code("close")
        elif kind == "last":
            self._last.append(child)
        elif kind in ("start", "end"):
            self._add_edge(child, kind)
        elif kind == "text":  # a cell without runs
            self.add_words(child.text or "")
        elif kind == "space":
            self.add_text(" ")
        elif kind in ("gap", "atom"):
            self.add_code("gap" if kind == "gap" and top else "atom", child)

    def _add_edge(self, child: Element, kind: Literal["start", "end"]) -> None:
        """Adds the start or end of words. Those that overlap others become single marks."""
        ids = [value for name, value in child.items() if NAME.search(name)]
        key = (child.getparent(), EDGE.sub("", child.tag), *ids[-1:])
        starts = self._starts.setdefault(key[0], {})
        is_nested = kind == "start" or next(reversed(starts), None) == key
        starts.pop(key, None)
        if kind == "start":
            starts[key] = True
        self.add_code(kind if is_nested else "atom", child, key=key)

    def kind(self, element: Element) -> Kind:
        """Returns what an element is. A container that says so is not translated; of controls, only those that people write in
        have words, of fields only links."""
        kind = self.vocabulary.kinds.get(element.tag, "atom")
        if kind == "field":
            return (
                "container"
                if any(is_link(value) for name, value in element.items() if name.endswith("instr"))
                else "atom"
            )
        if kind == "control":
            has_content = element.find("{*}sdtContent") is not None
            return "container" if has_content and not is_choice(element.iterfind("{*}sdtPr/*")) else "atom"
        if kind == "container" and (element.get("translate") == "no" or element.get("mtype") == "protected"):
            return "atom"
        return kind

    def add_words(self, text: str) -> None:
        """Adds text, in which line ends are between sentences."""
        for number, line in enumerate(text.split("\n") if self.vocabulary.lines else (text,)):
            if number:
                self.add_code("gap")
            self.add_text(line)

    def _add_run(self, run: Element, top: bool) -> None:
        properties = run.find(self.vocabulary.properties)
        plain = self._appearance(properties) == self._appearance(self._base)
        for child in run:
            kind = self.kind(child)
            if kind == "text" and plain:
                self.add_words(child.text or "")
            elif kind == "text":
                made = self._new_run(properties)
                if self._is_note(child.text or ""):
                    self._put(made, child.text)
                    self.add_code("atom", made)
                    continue
                self.add_code("open", made, inner=made)
                self.add_words(child.text or "")
                self.add_code("close")
            elif child is not properties:
                self.add_code("gap" if kind == "gap" and top else "atom", child, inner=self._new_run(properties))

    def _new_run(self, properties: Element | None) -> Element:
        run = etree.Element(self.vocabulary.run)
        if properties is not None:
            run.append(copy.deepcopy(properties))
        return run

    def _runs(self, parent: Element) -> Iterator[Element]:
        """Yields the runs of a paragraph without those of text boxes within it."""
        for child in parent:
            if (kind := self.kind(child)) == "run":
                yield child
            elif kind in ("container", "content"):
                yield from self._runs(child)

    def _most_frequent(self) -> Element | None:
        """Returns the properties of the appearance with the largest number of characters in the runs."""
        sizes: Counter[bytes] = Counter()
        examples: dict[bytes, Element | None] = {}
        for run in self._runs(self.element):
            properties = run.find(self.vocabulary.properties)
            seen = self._appearance(properties)
            examples.setdefault(seen, properties)
            sizes[seen] += sum(len(piece.text or "") for piece in run.iterchildren(self.vocabulary.text))
        return examples[sizes.most_common(1)[0][0]] if sizes else None

    def _appearance(self, properties: Element | None) -> bytes:
        """Returns the visible properties of a run in a form that can be compared."""
        if properties is None:
            return b""
        invisible = self.vocabulary.invisible
        attributes = sorted((name, value) for name, value in properties.items() if name not in invisible)
        children = b"".join(
            etree.tostring(child, with_tail=False) for child in properties if child.tag not in invisible
        )
        return repr(attributes).encode() + children if attributes or children else b""

    def _is_note(self, text: str) -> bool:
        """Returns whether a formatted text is the number of a note at the end of a word. The 2 of CO2 belongs to its word."""
        letters = LETTERS.search(self._word)
        return bool(NOTE.fullmatch(text) and letters and not _is_formula(letters[0]))

    def _rebuild(self, parent: Element, translated: str) -> None:
        """Fills an empty element."""
        stack = [parent]
        waiting: list[str] = []  # added at once, because adding takes time by the length of the text before
        for piece in pieces(translated):
            if isinstance(piece, str):
                waiting.append(valid_text(piece))
                continue
            for number in str(self.tagged.codes[piece].data).split():
                role, elements, inner = self.originals[int(number)]
                if role == "gap" and not elements:
                    waiting.append("\n")
                    continue
                self._put(stack[-1], "".join(waiting))
                waiting.clear()
                for element in elements:
                    element.tail = None  # the text after the element is part of the translation
                if role == "close" and len(stack) > 1:
                    stack.pop()
                if role != "open" and inner is not None:
                    inner.extend(elements)
                    elements = (inner,)
                stack[-1].extend(elements)
                if role == "open" and inner is not None:
                    if inner.tag != self.vocabulary.run:
                        inner.text, inner[:] = None, [each for each in inner if self.kind(each) == "setting"]
                    stack.append(inner)
        self._put(stack[-1], "".join(waiting))

    def _put(self, parent: Element, text: str) -> None:
        """Adds text at the end of an element: in mixed content, or in a text, or in a run, a new one if it is none."""
        vocabulary = self.vocabulary
        if not text:
            return
        if vocabulary.run and parent.tag != vocabulary.text:
            if parent.tag != vocabulary.run:
                run = self._new_run(self._base)
                parent.append(run)
                parent = run
            if not len(parent) or parent[-1].tag != vocabulary.text:
                etree.SubElement(parent, vocabulary.text)
            parent = parent[-1]
            if vocabulary.spaces:
                parent.set(SPACE, "preserve")
        last = next(parent.iterchildren(reversed=True), None)  # len(parent) would count all children
        if last is None:
            parent.text = (parent.text or "") + text
        else:
            last.tail = (last.tail or "") + text


def _is_formula(letters: str) -> bool:
    """Returns whether the letters beside a raised or lowered digit are a unit, a variable or a formula (m², x₁, CaCO₃).
    Longer words in small letters have the number of a note."""
    return len(letters) <= 2 or any(map(str.isupper, letters[1:]))


def is_choice(properties: Iterable[Element]) -> bool:
    """Returns whether the content of a control with these properties is chosen and not written."""
    return not CHOICES.isdisjoint(etree.QName(kind).localname for kind in properties if isinstance(kind.tag, str))


def is_link(instruction: str) -> bool:
    """Returns whether a field is a link."""
    return instruction.split()[:1] == ["HYPERLINK"]
