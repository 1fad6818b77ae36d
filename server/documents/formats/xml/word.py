"""The paragraphs of Word files. Fields other than links, choices and deleted text are not changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lxml import etree

from server.documents.formats.xml.paragraph import Kind, Original, Paragraph, Vocabulary
from server.documents.formats.xml.parsing import Element

FIELD_DEPTH = 5
"""Largest number of fields around one whose words are translated."""
RANGES = ("bookmark", "commentRange", "perm")
"""Elements with "Start" and "End" in their names and the same id, around words."""
CHOICES = frozenset(("checkbox", "comboBox", "date", "dropDownList", "picture", "docPartObj", "docPartList"))
"""Kinds of content controls whose content is not written by hand."""


class WordParagraph(Paragraph):
    """A paragraph with content controls, with pairs of elements around words (bookmarks, comments), and with fields,
    which are several runs from the first to the last mark."""

    def __init__(self, element: Element, vocabulary: Vocabulary) -> None:
        self._w = vocabulary.run[:-1]
        self._fields_around = 0
        super().__init__(element, vocabulary)

    def add_children(self, parent: Iterable[Element], top: bool) -> None:
        """Adds the children of the paragraph or of a container. Pairs that overlap each other become single marks."""
        groups = list(self._fields(parent))
        ends = self._ranges(groups)
        numbers: dict[int, int] = {}
        for i, group in enumerate(groups):
            if i in ends:
                numbers[ends[i]] = self.inline.open(Original(tuple(group), None, tuple(groups[ends[i]])))
            elif i in numbers:
                self.inline.close(numbers[i])
            elif len(group) > 1 or self._marks(group[0]):
                self._add_field(group, top)
            else:
                self.add(group[0], top)

    def add_words(self, text: str) -> None:
        """Adds text, whose line ends are spaces."""
        self.inline.text(text)

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

    def _fields(self, parent: Iterable[Element]) -> Iterator[list[Element]]:
        """Yields the children, those of a field together. A field may end in a later paragraph."""
        field: list[Element] = []
        depth = 0
        for child in parent:
            marks = self._marks(child)
            depth += marks.count("begin") - marks.count("end")
            field.append(child)
            if depth <= 0:
                yield field
                field, depth = [], 0
        if field:
            yield field

    def _ranges(self, groups: Sequence[Sequence[Element]]) -> dict[int, int]:
        """Returns the end of each pair of elements around words by its start, where pairs do not overlap."""
        pairs: dict[int, int] = {}
        starts: list[tuple[str, int]] = []
        tags = {self._w + name + edge: (name, edge) for name in RANGES for edge in ("Start", "End")}
        for i, (first, *_) in enumerate(groups):
            name, edge = tags.get(first.tag, ("", ""))
            key = name + first.get(self._w + "id", "") if edge else ""
            if edge == "Start":
                starts.append((key, i))
            elif edge and starts and starts[-1][0] == key:
                pairs[starts.pop()[1]] = i
            elif edge:
                starts = [start for start in starts if start[0] != key]
        return pairs

    def _add_field(self, field: Sequence[Element], top: bool) -> None:
        """Adds a field. The words of a link are translated, and those of a field that does not end here: a table of
        contents begins in its first line."""
        depth, middle = 0, 0
        for i, run in enumerate(field, 1):
            marks = self._marks(run)
            depth += marks.count("begin") - marks.count("end")
            if depth == 1 and not middle and marks == ["separate"]:
                middle = i
        instruction = "".join(text for run in field[:middle] for text in run.itertext(self._w + "instrText"))
        ends = depth <= 0
        if not middle or self._fields_around > FIELD_DEPTH or (ends and not is_link(instruction)):
            self.inline.atom(Original(tuple(field)))
            return
        self._fields_around += 1
        if ends and self._marks(field[-1]) == ["end"]:
            number = self.inline.open(Original(tuple(field[:middle]), None, tuple(field[-1:])))
            self.add_children(field[middle:-1], top=False)
            self.inline.close(number)
        else:
            self.inline.atom(Original(tuple(field[:middle])))
            self.add_children(field[middle:], top)
        self._fields_around -= 1


def is_choice(properties: Iterable[Element]) -> bool:
    """Returns whether the content of a control with these properties is chosen and not written."""
    return not CHOICES.isdisjoint(etree.QName(kind).localname for kind in properties if isinstance(kind.tag, str))


def is_link(instruction: str) -> bool:
    """Returns whether a field is a link."""
    return instruction.split()[:1] == ["HYPERLINK"]
