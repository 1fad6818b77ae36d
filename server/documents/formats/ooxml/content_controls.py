"""Finds the values of content controls in the data of a Word file: Word shows them in place of the control's content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lxml import etree

from server.documents.formats.ooxml.package import compared, related
from server.documents.formats.xml_inline import Element, parse_xml
from server.documents.zip_archive import Archive

CHOICES = frozenset(("checkbox", "comboBox", "date", "dropDownList", "picture", "docPartObj", "docPartList"))
"""Kinds of content controls whose content is not written by hand."""
PATH = re.compile(r"(?:/(?:[\w.-]+:)?[\w.-]+(?:\[\d{1,9}\])?){1,100}")
"""A path from the root to one element. Other expressions could take long."""
PREFIX = re.compile(r"xmlns:([\w.-]+)=['\"]([^'\"]*)['\"]")


def is_choice(properties: Iterable[Element]) -> bool:
    """Returns whether the content of a control with these properties is chosen and not written."""
    return not CHOICES.isdisjoint(etree.QName(kind).localname for kind in properties if isinstance(kind.tag, str))


def stores_by_id(archive: Archive, parts: Mapping[str, str]) -> dict[str, str]:
    """Returns the parts with data, of those in `parts` with their kinds, by the ids that their properties say."""
    names = {compared(name): name for name in archive.names}
    return {
        value.lower(): part
        for part in (part for part, kind in parts.items() if kind == "customXml")
        for properties, kind in related(archive, names, part)
        if kind == "customXmlProps"
        for name, value in parse_xml(archive.part(properties)).items()
        if name.endswith("}itemID")
    }


def bound_values(roots: Iterable[Element], stores: Mapping[str, Element]) -> Iterator[tuple[Element, None]]:
    """Yields the elements of data, by id, that controls in these parts show, once each."""
    seen: set[Element] = set()
    for binding in (binding for root in roots for binding in root.iter("{*}dataBinding")):
        w = binding.tag.removesuffix("dataBinding")
        store, path = stores.get(binding.get(w + "storeItemID", "").lower()), binding.get(w + "xpath", "")
        if store is None or not PATH.fullmatch(path) or is_choice(binding.getparent()):
            continue
        try:
            values = store.getroottree().xpath(
                path, namespaces=dict(PREFIX.findall(binding.get(w + "prefixMappings", "")))
            )
        except etree.XPathError:  # a prefix that is not defined
            continue
        for value in values[:1]:
            if value not in seen and not len(value):
                seen.add(value)
                yield value, None
