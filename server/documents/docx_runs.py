"""Runs of Word files: pieces of a paragraph with the same formatting."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from server.documents.runs import SPACE, most_frequent, new_run
from server.documents.xml_files import Element

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
CONTAINERS = frozenset(W + name for name in ("hyperlink", "ins", "smartTag", "moveTo"))
CHOICES = frozenset(("checkbox", "comboBox", "date", "dropDownList", "picture", "docPartObj", "docPartList"))
"""Kinds of content controls whose content is not written by hand."""
INVISIBLE = frozenset(W + name for name in ("lang", "noProof", "proofErr"))
"""Properties that do not change the appearance of a run."""


def most_frequent_properties(paragraph: Element) -> Element | None:
    """Returns the run properties of the visible formatting with the largest number of characters in the paragraph."""
    return most_frequent(own_runs(paragraph), W + "rPr", W + "t", visible_formatting)


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


def visible_formatting(properties: Element | None) -> bytes:
    """Returns the visible properties of a run in a form that can be compared."""
    if properties is None:
        return b""
    return b"".join(etree.tostring(child, with_tail=False) for child in properties if child.tag not in INVISIBLE)


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
