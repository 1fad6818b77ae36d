"""Runs of Word files: pieces of a paragraph with the same formatting."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator

from lxml import etree

from server.documents.xml_files import Element

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
CONTAINERS = frozenset(W + name for name in ("hyperlink", "ins", "smartTag", "moveTo"))
INVISIBLE = frozenset(W + name for name in ("lang", "noProof", "proofErr"))
"""Properties that do not change the appearance of a run."""


def most_frequent_properties(paragraph: Element) -> Element | None:
    """Returns the run properties of the visible formatting with the largest number of characters in the paragraph."""
    sizes: Counter[bytes] = Counter()
    examples: dict[bytes, Element | None] = {}
    for run in own_runs(paragraph):
        properties = run.find(W + "rPr")
        seen = visible_formatting(properties)
        examples.setdefault(seen, properties)
        sizes[seen] += sum(len(text.text or "") for text in run.iterchildren(W + "t"))
    return examples[sizes.most_common(1)[0][0]] if sizes else None


def own_runs(parent: Element) -> Iterator[Element]:
    """Yields the runs of a paragraph without those of text boxes within it."""
    for child in parent:
        if child.tag == W + "r":
            yield child
        elif child.tag in CONTAINERS:
            yield from own_runs(child)


def visible_formatting(properties: Element | None) -> bytes:
    """Returns the visible properties of a run in a form that can be compared."""
    if properties is None:
        return b""
    return b"".join(etree.tostring(child, with_tail=False) for child in properties if child.tag not in INVISIBLE)


def new_run(properties: Element | None) -> Element:
    """Returns an empty run with these properties."""
    run = etree.Element(W + "r")
    if properties is not None:
        run.append(copy.deepcopy(properties))
    return run


def add_text(parent: Element, text: str, base: Element | None) -> None:
    """Adds text at the end of a run, or in a new run with the properties `base` if `parent` is not a run."""
    if not text:
        return
    if parent.tag != W + "r":
        run = new_run(base)
        parent.append(run)
        parent = run
    element = etree.SubElement(parent, W + "t")
    element.text = text
    element.set(SPACE, "preserve")
