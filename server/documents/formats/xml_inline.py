"""Parses XML of untrusted origin, and converts its paragraphs to HTML for the translator and back, so that formatting
follows its words.

Every element within the paragraph is represented by a numbered HTML tag: `<span k3>` for an element around words,
`<img k3>` for an element that is moved like a word, and `<br k3>` for an element between sentences.
"""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from lxml import etree

from server.errors import InvalidRequest
from server.text.numbers import is_formula
from server.text.syntax.markup import markup_tokens

Element = Any
"""An element of lxml, which has no type annotations."""


SAFE: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
"""Options of lxml for XML of untrusted origin."""


def parse_xml(data: bytes, doctype: bool = False) -> Element:
    """Returns the root element of an XML file. Entities are not expanded, nothing is fetched, and lxml limits the
    depth.

    Raises InvalidRequest, also for a document type declaration unless `doctype`: office formats have none.
    """
    parser = etree.XMLParser(**SAFE)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise InvalidRequest("The file is damaged: a part of it is not well-formed XML.") from error
    if parser.error_log.filter_from_errors():  # lxml does not raise an error that is followed by a warning
        raise InvalidRequest("The file is damaged: a part of it is not well-formed XML.")
    check_document_type(root, doctype)
    return root


def check_document_type(element: Element, allowed: bool) -> None:
    """Raises InvalidRequest if the file of an element has a document type that is not `allowed`, or that defines
    entities."""
    document = element.getroottree().docinfo
    if document.doctype and not allowed:
        raise InvalidRequest("A part of the file has a document type (DOCTYPE), which is not read here; remove it.")
    subset = document.internalDTD
    if subset is not None and (subset.entities() or subset.elements()):
        raise InvalidRequest("A part of the file defines entities or elements of its own; remove its document type.")


def write_xml(root: Element) -> bytes:
    """Returns an XML file as bytes in UTF-8."""
    tree = root.getroottree()
    standalone = None if tree.docinfo.doctype else True  # a document type may define the entities of the file
    data: bytes = etree.tostring(tree, xml_declaration=True, encoding="UTF-8", standalone=standalone)
    return data


FORMULA = re.compile(r"(?<![^\W\d_])([^\W\d_]+)<span k([0-9]+)>([0-9+\-−]{1,4})</span k\2>([^\W\d_]*)")
"""A word with a formatted number in it."""
WORDS = re.compile(r"(\w+[+\-−]*(?!\w))")
"""Words, also with the signs that `FORMULA` has at the end of a word."""
INVALID_CHARACTERS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow."""
NUMBERED_TAG = re.compile(r"<(/?)(?:span|img|br|code) k([0-9]+)>")


class Inline:
    """Builds the HTML of one paragraph. `elements[k]` are the elements that the tag with number k represents."""

    def __init__(self) -> None:
        self.elements: list[Sequence[Any]] = []
        self.inner: dict[int, tuple[Element | None, Sequence[Element]]] = {}
        """By the number of elements around words: the element that takes them, None if they are beside it, and the elements
        after them."""
        self.formulas: dict[str, Sequence[Element]] = {}
        """Words with a formatted number, and the elements that write each."""
        self._parts: list[str] = []

    @property
    def html(self) -> str:
        return "".join(self._parts)

    def text(self, text: str) -> None:
        self._parts.append(html.escape(text, quote=False))

    def open(self, shell: Element, inner: Element | None = None) -> int:
        """Opens an element around words and returns its number. `shell` is a copy of the element without content, and
        `inner` the element in it that takes the words."""
        return self.open_range([shell], (), shell if inner is None else inner)

    def open_range(self, starts: Sequence[Any], ends: Sequence[Any], inner: Element | None = None) -> int:
        """Opens a range of words between elements and returns its number. The words are in `inner`, or beside them."""
        number = self._number(starts)
        self.inner[number] = (inner, ends)
        self._parts.append(f"<span k{number}>")
        return number

    def close(self, number: int) -> None:
        self._parts.append(f"</span k{number}>")

    def atom(self, elements: Sequence[Element], name: str = "") -> None:
        """Adds elements that are moved like a word: an image, the mark of a note, or a `name` of the sentence."""
        tag = f"k{self._number(elements)}>"
        self._parts.append(f"<code {tag}{html.escape(name, quote=False)}</code {tag}" if name else f"<img {tag}")

    def gap(self, elements: Sequence[Element]) -> None:
        """Adds elements between sentences, which are not moved: a line break, a tabulator. No element stands for a line end."""
        self._parts.append(f"<br k{self._number(elements)}>")

    def keep_formulas(self, add_text: Callable[[Element, str], None], holder: str = "") -> None:
        """Turns words with a formatted number, such as the subscript of H2O, into plain words, because formatting
        follows whole words. `rebuild` formats the same words in the translation. `holder` is the tag of an element around
        each, for formats whose text is not in runs. The number of a note at the end of a word is moved like a word."""

        def word(match: re.Match[str]) -> str:
            if (
                self.inner[int(match[2])][0] is not self.elements[int(match[2])][0]
            ):  # no formatting: a bookmark, a control
                return match[0]
            if not match[4] and not is_formula(match[1]):  # the number of a note
                add_text(self.elements[int(match[2])][0], match[3])
                return f"{match[1]}<img k{match[2]}>"
            parent = etree.Element(holder or "formula")
            shell = copy.deepcopy(self.elements[int(match[2])][0])
            add_text(parent, match[1])
            parent.append(shell)
            add_text(shell, match[3])
            if match[4]:
                add_text(parent, match[4])
            self.formulas[match[1] + match[3] + match[4]] = [parent] if holder else list(parent)
            return match[1] + match[3] + match[4]

        self._parts = [FORMULA.sub(word, self.html)]

    def raw(self, markup: str) -> None:
        """Adds markup that is HTML."""
        self._parts.append(markup)

    def _number(self, elements: Sequence[Element]) -> int:
        self.elements.append(elements)
        return len(self.elements) - 1


Kind = Literal["container", "atom", "gap", "space", "nothing"]


def add_mixed(inline: Inline, parent: Element, kind_of: Callable[[Element], Kind], top: bool = True) -> None:
    """Adds the text and the elements in an element. `kind_of` says what each element is: a container of words, an atom, a
    gap (only at the `top`, else an atom), a space, or nothing."""
    inline.text(parent.text or "")
    for child in parent:
        kind = kind_of(child)
        if kind == "container":
            number = inline.open(etree.Element(child.tag, child.attrib, child.nsmap))
            add_mixed(inline, child, kind_of, top=False)
            inline.close(number)
        elif kind == "space":
            inline.text(" ")
        elif kind != "nothing":
            (inline.gap if top and kind == "gap" else inline.atom)([child])
        inline.text(child.tail or "")


def rebuild(parent: Element, translated: str, inline: Inline, add_text: Callable[[Element, str], None]) -> None:
    """Fills an empty paragraph from translated HTML. `add_text(element, text)` adds text at the end of an element."""
    stack = [parent]
    waiting: list[str] = []  # text that is added at once, because adding takes time by the length of the text before

    def flush() -> None:
        if waiting:
            add_text(stack[-1], "".join(waiting))
            waiting.clear()

    for token in markup_tokens(translated):
        if isinstance(token, str):
            text = INVALID_CHARACTERS.sub("", html.unescape(token))
            for part in WORDS.split(text) if inline.formulas else [text]:
                formula = inline.formulas.get(part, ())
                if formula and stack[-1].tag != formula[0].tag:
                    flush()
                    stack[-1].extend([copy.deepcopy(element) for element in formula])
                else:
                    waiting.append(part)
        elif match := NUMBERED_TAG.fullmatch(token.raw):
            if match[1]:
                flush()
                if len(stack) > 1:
                    stack.pop()
                    stack[-1].extend(inline.inner[int(match[2])][1])
            elif originals := inline.elements[int(match[2])]:
                flush()
                for element in originals:
                    element.tail = None  # the text after the element is part of the translation
                stack[-1].extend(originals)
                if token.name == "span":
                    inner = inline.inner[int(match[2])][0]
                    stack.append(stack[-1] if inner is None else inner)
            else:
                waiting.append("\n")
    flush()


def plain(markup: str) -> str:
    """Returns the text of HTML without tags and without characters that XML does not allow."""
    text = "".join(html.unescape(token) for token in markup_tokens(markup) if isinstance(token, str))
    return INVALID_CHARACTERS.sub("", text)


def append_text(parent: Element, text: str) -> None:
    """Adds text at the end of an element with mixed content."""
    last = next(parent.iterchildren(reversed=True), None)  # len(parent) would count all children
    if last is not None:
        last.tail = (last.tail or "") + text
    else:
        parent.text = (parent.text or "") + text
