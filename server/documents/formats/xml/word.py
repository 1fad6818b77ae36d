"""The paragraphs of Word files. Fields other than links, choices and deleted text are not changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lxml import etree

from server.documents.formats.xml.paragraph import Kind, Paragraph, Vocabulary
from server.documents.formats.xml.parsing import Element

FIELD_DEPTH = 5
"""Largest number of fields around one whose words are translated."""
CHOICES = frozenset(("checkbox", "comboBox", "date", "dropDownList", "picture", "docPartObj", "docPartList"))
"""Kinds of content controls whose content is not written by hand."""


class WordParagraph(Paragraph):
    """A paragraph with content controls, and with fields, which are several runs from the first to the last mark."""

    def __init__(self, element: Element, vocabulary: Vocabulary) -> None:
        self._w = vocabulary.run[:-1]
        self._fields_around = 0
        super().__init__(element, vocabulary)

    def add_children(self, parent: Iterable[Element], top: bool) -> None:
        """Adds the children of the paragraph or of a container."""
        for field, middle, ended in self._fields(parent):
            if len(field) > 1 or self._marks(field[0]):
                self._add_field(field, middle, ended, top)
            else:
                self.add(field[0], top)

    def add_words(self, text: str) -> None:
        """Adds text, whose line ends are spaces."""
        self.add_text(text)

    def kind(self, element: Element) -> Kind:
        """Returns what an element is: of controls, only those that people write in have words, of fields only links."""
        if element.tag == self._w + "fldSimple":
            return "container" if is_link(element.get(self._w + "instr", "")) else "atom"
        if element.tag == self._w + "sdt":
            content = element.find(self._w + "sdtContent")
            return "atom" if content is None or is_choice(element.iterfind(f"{self._w}sdtPr/*")) else "container"
        return super().kind(element)

    def _marks(self, element: Element) -> list[str]:
        """Returns the marks of fields in a run: "begin", "separate", "end"."""
        w = self._w
        marks = element.iterchildren(w + "fldChar") if element.tag == w + "r" else ()
        return [mark.get(w + "fldCharType") for mark in marks]

    def _fields(self, parent: Iterable[Element]) -> Iterator[tuple[list[Element], int, bool]]:
        """Yields the children, those of a field together, with the number of those before its words (0: it has none), and
        whether it ends here: a field may end in a later paragraph."""
        field: list[Element] = []
        depth = middle = 0
        for child in parent:
            marks = self._marks(child)
            depth += marks.count("begin") - marks.count("end")
            field.append(child)
            if depth == 1 and not middle and marks == ["separate"]:
                middle = len(field)
            if depth <= 0:
                yield field, middle, True
                field, depth, middle = [], 0, 0
        if field:
            yield field, middle, False

    def _add_field(self, field: Sequence[Element], middle: int, ended: bool, top: bool) -> None:
        """Adds a field. The words of a link are translated, and those of a field that does not end here: a table of
        contents begins in its first line."""
        instruction = "".join(text for run in field[:middle] for text in run.itertext(self._w + "instrText"))
        if not middle or self._fields_around > FIELD_DEPTH or (ended and not is_link(instruction)):
            self.add_code("atom", *field)
            return
        self._fields_around += 1
        closes = ended and self._marks(field[-1]) == ["end"]
        self.add_code("start" if closes else "atom", *field[:middle], key=field[0])
        self.add_children(field[middle : -1 if closes else None], top and not closes)
        if closes:
            self.add_code("end", field[-1], key=field[0])
        self._fields_around -= 1


def is_choice(properties: Iterable[Element]) -> bool:
    """Returns whether the content of a control with these properties is chosen and not written."""
    return not CHOICES.isdisjoint(etree.QName(kind).localname for kind in properties if isinstance(kind.tag, str))


def is_link(instruction: str) -> bool:
    """Returns whether a field is a link."""
    return instruction.split()[:1] == ["HYPERLINK"]
