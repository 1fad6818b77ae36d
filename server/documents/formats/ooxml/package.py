"""Finds the parts of a Microsoft Office file by the relationships of its package (ECMA-376 part 2), whatever their
names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from lxml import etree

from server.documents.formats.xml_inline import parse_xml
from server.documents.zip_archive import Archive
from server.errors import InvalidRequest

FOLLOWED = frozenset(("worksheet", "chartsheet", "dialogsheet"))
"""Kinds of parts that have relationships to parts with texts."""


def prefixes(vocabulary: str, name: str) -> tuple[str, str]:
    """Returns the namespaces of a vocabulary, in the transitional and in the strict form, as lxml writes them in tags."""
    return (
        f"{{http://schemas.openxmlformats.org/{vocabulary}/2006/{name}}}",
        f"{{http://purl.oclc.org/ooxml/{vocabulary}/{name}}}",
    )


def parts_by_kind(archive: Archive, main: str, kinds: frozenset[str]) -> dict[str, str]:
    """Returns the main part, the properties, and the parts of these kinds that relationships lead to, in the order of the
    archive, each with its kind: the last word of the relationship's type, such as "header".

    Raises InvalidRequest if the root element of the main part is not called `main`.
    """
    names = {compared(name): name for name in archive.names}
    parts: dict[str, str] = {}
    sources = [""]
    while sources:
        source = sources.pop()
        expected = {*kinds, *FOLLOWED} if source else {"officeDocument", "core-properties"}
        for part, kind in related(archive, names, source):
            if part not in parts and kind in expected:
                parts[part] = kind
                sources.append(part)
    mains = [part for part, kind in parts.items() if kind == "officeDocument"]
    if not mains or etree.QName(parse_xml(archive.part(mains[0]))).localname != main:
        raise InvalidRequest("The file is damaged, or its name does not say what it is: a part of it is missing.")
    return {name: parts[name] for name in archive.names if name in parts}


def related(archive: Archive, names: Mapping[str, str], source: str) -> Iterator[tuple[str, str]]:
    """Yields the parts to which a part, or the package itself (""), has relationships, with their kinds. `names` are those of
    the archive by `compared`."""
    folder, _, file = source.rpartition("/")
    relationships = names.get(compared(f"{folder}/_rels/{file}.rels"))
    if relationships is None:
        return
    for relationship in parse_xml(archive.part(relationships)).iter("{*}Relationship"):
        target = posixpath.normpath(posixpath.join("/", folder, unquote(relationship.get("Target", ""))))
        part = names.get(compared(target))
        if part and relationship.get("TargetMode") != "External":
            yield part, relationship.get("Type", "").rpartition("/")[2]


def compared(name: str) -> str:
    """Returns a part's name as it is compared: without a slash before it, and whatever its letters' case."""
    return name.replace("\\", "/").lstrip("/").lower()
