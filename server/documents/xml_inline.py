"""A paragraph of XML as HTML for the translator, and back: formatting follows its words.

Every element within the paragraph has a numbered stand-in: `<span k3>` around words, `<img k3>` for what stands like a
word, `<br k3>` for what parts sentences.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import Any

from lxml import etree

from server.errors import InvalidRequest
from server.text.html_scanner import scan_markup

Element = Any
"""An lxml element; the library has no types of its own."""
UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""
STAND_IN = re.compile(r"<(/?)(?:span|img|br) k([0-9]+)>")


class Inline:
    """Builds the HTML of one paragraph. `elements[k]` are those that the stand-in of number k stands for."""

    def __init__(self) -> None:
        self.elements: list[Sequence[Element]] = []
        self._words: list[str] = []
        self._parts: list[str] = []

    @property
    def html(self) -> str:
        return "".join(self._parts)

    @property
    def words(self) -> str:
        """The text without its stand-ins."""
        return "".join(self._words)

    def text(self, text: str) -> None:
        self._words.append(text)
        self._parts.append(html.escape(text, quote=False))

    def open(self, shell: Element) -> int:
        """Begins an element around words; `shell` is empty and gets the words later. Returns its number."""
        self._parts.append(f"<span k{self._number([shell])}>")
        return len(self.elements) - 1

    def close(self, number: int) -> None:
        self._parts.append(f"</span k{number}>")

    def atom(self, elements: Sequence[Element]) -> None:
        """Something between words that moves with them: an image, a note's mark."""
        self._parts.append(f"<img k{self._number(elements)}>")

    def gap(self, elements: Sequence[Element]) -> None:
        """Something between sentences that stays: a line break, a tabulator."""
        self._parts.append(f"<br k{self._number(elements)}>")

    def _number(self, elements: Sequence[Element]) -> int:
        self.elements.append(elements)
        return len(self.elements) - 1


def rebuild(
    parent: Element, translated: str, elements: Sequence[Sequence[Element]], add_text: Callable[[Element, str], None]
) -> None:
    """Fills an emptied paragraph from translated HTML. `add_text(element, words)` writes words at an element's end."""
    stack = [parent]
    for token in scan_markup(translated):
        if isinstance(token, str):
            add_text(stack[-1], UNPRINTABLE.sub("", html.unescape(token)))
        elif found := STAND_IN.fullmatch(token.raw):
            if not found[1]:
                originals = elements[int(found[2])]
                for element in originals:
                    element.tail = None  # the words after it are in the translation
                stack[-1].extend(originals)
                if token.name == "span":
                    stack.append(originals[0])
            elif len(stack) > 1:
                stack.pop()


def parse_xml(data: bytes, doctype: bool = False) -> Element:
    """The root of an XML part. Entities are not expanded, nothing is fetched, and depth is bounded by the library.

    Raises InvalidRequest, also for a document type where office formats have none.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise InvalidRequest("The file is damaged: a part of it is not well-formed XML.") from error
    if parser.error_log.filter_from_errors():  # the library lets an error pass that a mere warning comes after
        raise InvalidRequest("The file is damaged: a part of it is not well-formed XML.")
    if root.getroottree().docinfo.doctype and not doctype:
        raise InvalidRequest("The file is damaged: a part of it declares a document type.")
    return root


def write_xml(root: Element) -> bytes:
    """An XML part as bytes, in UTF-8."""
    data: bytes = etree.tostring(root.getroottree(), xml_declaration=True, encoding="UTF-8", standalone=True)
    return data
