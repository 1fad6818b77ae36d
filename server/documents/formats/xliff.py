"""Reads XLIFF 1.2 and 2.x (.xlf, .xliff): sources without a translation get a target. Inline codes are kept."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from lxml import etree

from server.documents.document import Document, has_words
from server.documents.formats.xml_inline import (
    Element,
    Inline,
    Kind,
    add_mixed,
    append_text,
    parse_xml,
    plain,
    rebuild,
    write_xml,
)
from server.errors import InvalidRequest

VERSION_1 = "{urn:oasis:names:tc:xliff:document:1.2}"
VERSION_2 = "{urn:oasis:names:tc:xliff:document:2.0}"
CONTAINERS = frozenset(("g", "pc", "mrk"))
"""Inline elements around words."""
UNTRANSLATED = frozenset(("new", "needs-translation", "initial"))
"""States of a target that is to be replaced."""


def read(data: bytes, target: str) -> Document:
    """Reads an XLIFF file and sets its target language. Raises InvalidRequest."""
    root = parse_xml(data)
    namespace = next((name for name in (VERSION_1, VERSION_2) if root.tag == name + "xliff"), None)
    if namespace is None:
        raise InvalidRequest("The file is not XLIFF 1.2 or 2.x.")
    units: list[tuple[Element, Inline]] = []
    for source in sources(root, namespace):
        inline = Inline()
        add_mixed(inline, copy.deepcopy(source), kind_of)
        if has_words(plain(inline.html)):
            units.append((source, inline))

    def write(translations: Sequence[str]) -> bytes:
        for (source, inline), translated in zip(units, translations, strict=True):
            made = new_target(source, namespace)
            rebuild(made, translated, inline, append_text)
        if namespace == VERSION_2:
            root.set("trgLang", target)
        for file in root.iter(VERSION_1 + "file"):
            file.set("target-language", target)
        return write_xml(root)

    return Document(tuple(inline.html for _, inline in units), "html", write)


def sources(root: Element, namespace: str) -> Iterator[Element]:
    """Yields the source elements that are to be translated."""
    for source in root.iter(namespace + "source"):
        parent = source.getparent()
        name = etree.QName(parent).localname if parent is not None else ""
        if name not in ("trans-unit", "segment") or any(
            element.get("translate") == "no" for element in source.iterancestors()
        ):
            continue
        target = parent.find(namespace + "target")
        state = (target.get("state") if target is not None else None) or parent.get("state")
        if target is None or not "".join(target.itertext()).strip() or state in UNTRANSLATED:
            yield source


def kind_of(element: Element) -> Kind:
    """Returns what an element within a source is: a container of words, or a code, which is moved like a word."""
    if not isinstance(element.tag, str) or element.get("translate") == "no" or element.get("mtype") == "protected":
        return "atom"
    return "container" if etree.QName(element).localname in CONTAINERS else "atom"


def new_target(source: Element, namespace: str) -> Element:
    """Returns an empty target for a source, in the place of the old one or after the source."""
    parent = source.getparent()
    target = parent.find(namespace + "target")
    if target is None:
        target = etree.Element(namespace + "target")
        before = parent.find(namespace + "seg-source")
        before = source if before is None else before
        before.addnext(target)  # lxml moves the white space after `before` behind the target
        target.tail, before.tail = before.tail or target.tail, before.tail or target.tail
    target.text = None
    for child in list(target):
        target.remove(child)
    if namespace == VERSION_1 and target.get("state"):
        target.set("state", "needs-review-translation")
    if namespace == VERSION_2 and parent.get("state") in UNTRANSLATED:
        parent.set("state", "translated")
    return target
