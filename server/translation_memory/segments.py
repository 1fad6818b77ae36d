"""Streams the units of large XML files, and reads segments without their inline codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from server.documents.formats.xml.parsing import SAFE, Element, check_document_type
from server.errors import InvalidRequest
from server.text.syntax import plain

CODES = frozenset("bpt ept bx ex sc ec it sm em".split())
POINTS = frozenset("ph x ut cp".split())
"""Inline elements that are codes: beginnings and ends, and those that stand alone. All others are around words."""
POINT = re.compile(r"(?<=\w)\0+(?=\w)")


def elements(path: Path, root: str, *names: str) -> Iterator[Element]:
    """Yields the elements with these names in an XML file, and removes each after use. Raises InvalidRequest with the
    line, also for another `root`."""
    try:
        with path.open("rb") as file:
            parsed = etree.iterparse(file, tag=[f"{{*}}{name}" for name in (root, *names)], **SAFE)
            for _, element in parsed:
                check_document_type(element, allowed=True)
                if etree.QName(element).localname in names:
                    yield element
                    element.clear()
                    while element.getprevious() is not None:
                        del element.getparent()[0]
            if etree.QName(parsed.root).localname != root:
                raise InvalidRequest(f"The file is not {root.upper()}.")
    except etree.XMLSyntaxError as error:
        raise InvalidRequest(f"Line {error.lineno or 1} is not well-formed XML, or the file ends there.") from error


def text_of(element: Element | None) -> str:
    """Returns the text of a segment without inline codes. Codes that are a placeholder of a program are kept, and others that
    separate words become a space."""
    return "" if element is None else POINT.sub(" ", _marked(element)).replace("\0", "")


def _marked(element: Element) -> str:
    """Returns the text of an element with a NUL for each code that stands alone."""
    parts = [element.text or ""]
    for child in element.iterchildren(etree.Element):
        name, text = etree.QName(child).localname, _marked(child)
        if name in CODES | POINTS:
            text = text or child.get("equiv-text") or child.get("disp") or child.get("equiv") or ""
            spans = () if text.startswith("<") else plain.codes(text)
            if [(span.start, span.end) for span in spans] != [(0, len(text))]:
                text = "\0" if name in POINTS else ""
        parts += [text, child.tail or ""]
    return "".join(parts)
