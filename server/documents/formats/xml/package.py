"""Finds the parts of a Microsoft Office file by the relationships of its package (ECMA-376 part 2),
whatever their names, and the data that content controls of Word show in place of their content."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import unquote

from lxml import etree

from server.documents.formats.xml.paragraph import is_choice
from server.documents.formats.xml.parsing import Element, parse_xml
from server.documents.zip_archive import Archive

MAIN = frozenset(("document", "presentation", "workbook"))
PATH = re.compile(r"(?:/(?:[\w.-]+:)?[\w.-]+(?:\[\d{1,9}\])?){1,100}")
"""A path from the root to one element. Other expressions could take long."""
PREFIX = re.compile(r"xmlns:([\w.-]+)=['\"]([^'\"]*)['\"]")


def parts_by_kind(archive: Archive, kinds: frozenset[str]) -> dict[str, str]:
    """Returns the main part, the properties, and the parts of these kinds that relationships lead
    to, in the order of the archive, each with its kind: the last word of the relationship's type.
    Raises InvalidRequest if the root element of the main part is none of MAIN."""
    parts: dict[str, str] = {}
    sources = [""]
    while sources:
        source = sources.pop()
        expected = kinds if source else {"officeDocument", "core-properties"}
        for part, kind in related(archive, source):
            if part not in parts and kind in expected:
                parts[part] = kind
                sources.append(part)
    mains = [part for part, kind in parts.items() if kind == "officeDocument"]
    if not mains or etree.QName(parse_xml(archive.part(mains[0]))).localname not in MAIN:
        archive.require("")
    return {name: parts[name] for name in archive.names if name in parts}


def related(archive: Archive, source: str) -> Iterator[tuple[str, str]]:
    """Yields the parts to which a part, or the package itself (""), has relationships, with their
    kinds."""
    folder, _, file = source.replace("\\", "/").rpartition("/")
    relationships = archive.found(f"{folder}/_rels/{file}.rels")
    for relationship in (
        parse_xml(archive.part(relationships)).iter("{*}Relationship") if relationships else ()
    ):
        target = posixpath.normpath(
            posixpath.join("/", folder, unquote(relationship.get("Target", "")))
        )
        part = archive.found(target)
        if part and relationship.get("TargetMode") != "External":
            yield part, relationship.get("Type", "").rpartition("/")[2]


def bound_values(
    archive: Archive, parts: Iterable[str], roots: Iterable[Element]
) -> tuple[dict[str, Element], dict[Element, None]]:
    """Returns the data that controls show, by part, and the elements of it that they show. They
    name a part by an id, which its properties say."""
    data: dict[str, Element] = {}
    shown: dict[Element, None] = {}
    bindings = [binding for root in roots for binding in root.iter("{*}dataBinding")]
    stores = {
        value.lower(): part
        for part in (parts if bindings else ())
        for properties, kind in related(archive, part)
        if kind == "customXmlProps"
        for name, value in parse_xml(archive.part(properties)).items()
        if name.endswith("}itemID")
    }
    for binding in bindings:
        w = binding.tag.removesuffix("dataBinding")
        name, path = (
            stores.get(binding.get(w + "storeItemID", "").lower()),
            binding.get(w + "xpath", ""),
        )
        if name is None or not PATH.fullmatch(path) or is_choice(binding.getparent()):
            continue
        if name not in data:
            data[name] = parse_xml(archive.part(name))
        prefixes = dict(PREFIX.findall(binding.get(w + "prefixMappings", "")))
        with suppress(etree.XPathError):  # a prefix that is not defined
            values = data[name].getroottree().xpath(path, namespaces=prefixes)
            shown |= dict.fromkeys(value for value in values[:1] if not len(value))
    return data, shown
