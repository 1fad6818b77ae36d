"""Reads XLIFF 1.x and 2.x (.xlf, .xliff): sources without a translation get a target."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lxml import etree

from server.documents.document import Document, has_words, label
from server.documents.formats.xml.paragraph import Paragraph
from server.documents.formats.xml.parsing import Element, parse_xml, write_xml
from server.documents.formats.xml.vocabularies import XLIFF, vocabularies
from server.errors import InvalidRequest
from server.translation.coded_text import coded

NAMESPACE = re.compile(r"(\{urn:oasis:names:tc:xliff:document:([12])\.\d\}|)xliff")
HEAD = re.compile(rb"(?:\xef\xbb\xbf|\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*>)*", re.DOTALL)
"""The text before the root element."""
UNTRANSLATED = frozenset(("new", "needs-translation", "initial"))
"""States of a target that is replaced."""


class Unit(NamedTuple):
    """A source, its segmented form, its target, and the translated segments of the target by name."""

    source: Element
    segmented: Element | None
    target: Element | None
    done: dict[str, Element]


def read(data: bytes, target: str) -> Document:
    """Reads an XLIFF file and sets its target language."""
    root = parse_xml(data, doctype=True)
    named = NAMESPACE.fullmatch(root.tag)
    if named is None or not (named[2] or root.get("version")):
        raise InvalidRequest("The file is not XLIFF 1.x or 2.x.")
    namespace, second = named[1], (named[2] or root.get("version", "1")[:1]) == "2"
    [inline] = vocabularies((namespace,), XLIFF).values()
    places: list[tuple[Unit, Element, Paragraph, Callable[[str], str]]] = []
    texts: list[str] = []
    for unit in open_units(root):
        for place in marks_of(unit.segmented) or [unit.source]:
            paragraph = Paragraph(place, inline)
            tagged = paragraph.tagged
            text, written = (coded(tagged), str) if tagged.codes else label(tagged.text)
            if has_words(tagged.text) and (
                place is unit.source or place.get("mid") not in unit.done
            ):
                places.append((unit, place, paragraph, written))
                texts.append(text)

    def write(translations: Sequence[str]) -> bytes:
        targets: dict[Element, Element] = {}
        for (unit, place, paragraph, written), made in zip(places, translations, strict=True):
            if place not in targets:
                targets |= new_target(unit, second)
            paragraph.element = targets[place]
            paragraph.fill(written(made))
        if second:
            root.set("trgLang", target)
        else:
            for file in root.iter("{*}file"):
                file.set("target-language", target)
        return in_frame(data, root)

    return Document(tuple(texts), "coded", write)


def in_frame(data: bytes, root: Element) -> bytes:
    """Returns a file. In UTF-8 the text before and after the root element is kept."""
    if root.getroottree().docinfo.encoding not in ("UTF-8", None) or root.getnext() is not None:
        return write_xml(root)
    written: str = etree.tostring(root, encoding="unicode")
    return HEAD.match(data)[0] + written.encode() + data[data.rindex(b">") + 1 :]  # type: ignore[index]


def marks_of(parent: Element | None) -> list[Element]:
    """Returns the innermost segments in a source or target."""
    if parent is None:
        return []
    marks = [mark for mark in parent.iter("{*}mrk") if mark.get("mtype") == "seg"]
    around = {mark.getparent() for mark in marks}
    return [mark for mark in marks if mark not in around]


def open_units(root: Element) -> Iterator[Unit]:
    """Yields the units without a complete translation."""
    for source in root.iter("{*}source"):
        unit = source.getparent()
        name = etree.QName(unit).localname if unit is not None else ""
        around = [element.get("translate") for element in source.iterancestors()]
        if name not in ("trans-unit", "segment") or "no" in around:
            continue
        target, done = unit.find("{*}target"), {}
        if target is not None and words(target) and not is_open(source, target):
            marks = marks_of(target)
            done = {mark.get("mid"): mark for mark in marks if words(mark)}
            if len(done) == len(marks):
                continue
        yield Unit(source, unit.find("{*}seg-source"), target, done)


def is_open(source: Element, target: Element) -> bool:
    """Returns whether a target is untranslated by its state, or without a state is an unapproved
    copy of its source."""
    unit = source.getparent()
    if state := target.get("state") or unit.get("state"):
        return state in UNTRANSLATED
    return unit.get("approved") != "yes" and words(target) == words(source)


def words(element: Element) -> list[str]:
    return "".join(element.itertext()).split()


def new_target(unit: Unit, second: bool) -> dict[Element, Element]:
    """Empties or adds the target of a unit of XLIFF 2 (`second`) or 1. Returns the elements that
    take the translations, by the source or its segments."""
    source, segmented, target, done = unit
    parent = source.getparent()
    if target is None:
        target = etree.Element(source.tag.removesuffix("source") + "target")
        before = source if segmented is None else segmented
        before.addnext(target)  # lxml moves the white space after `before` behind the target
        target.tail, before.tail = before.tail or target.tail, before.tail or target.tail
    target.text, target[:] = None, ()
    if not second and target.get("state"):
        target.set("state", "needs-review-translation")
    if second and parent.get("state") in UNTRANSLATED:
        parent.set("state", "translated")
    segments = marks_of(segmented)
    if not segments:
        return {source: target}
    fill(target, segmented)
    targets = dict(zip(segments, marks_of(target), strict=True))
    for place in targets.values():
        if (old := done.get(place.get("mid"))) is not None:
            fill(place, old)
    return targets


def fill(element: Element, other: Element) -> None:
    element.text, element[:] = other.text, map(copy.deepcopy, other)
