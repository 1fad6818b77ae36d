"""Parses XML of untrusted origin, and writes it."""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from server.errors import InvalidRequest

Element = Any
"""An element of lxml, which has no type annotations."""
SAFE: dict[str, Any] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
}
INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse_xml(data: bytes, doctype: bool = False) -> Element:
    """Returns the root element of an XML file. Entities are not expanded, and lxml limits the
    depth. Raises InvalidRequest, also for a document type declaration unless `doctype`."""
    parser = etree.XMLParser(**SAFE)
    try:
        root = etree.fromstring(data, parser)
        if errors := parser.error_log.filter_from_errors():  # lxml ignores one before a warning
            raise ValueError(errors)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise InvalidRequest(
            "The file is damaged or encrypted: a part of it is not well-formed XML."
        ) from error
    check_document_type(root, doctype)
    return root


def check_document_type(element: Element, allowed: bool) -> None:
    """Raises InvalidRequest for a document type that is not `allowed` or defines entities."""
    document = element.getroottree().docinfo
    if document.doctype and not allowed:
        raise InvalidRequest(
            "A part of the file has a document type (DOCTYPE), which is not read here; remove it."
        )
    subset = document.internalDTD
    if subset is not None and (subset.entities() or subset.elements()):
        raise InvalidRequest(
            "A part of the file defines entities or elements of its own; remove its DOCTYPE."
        )


def write_xml(root: Element) -> bytes:
    """Returns an XML file as bytes in UTF-8."""
    tree = root.getroottree()
    standalone = None if tree.docinfo.doctype else True  # the type may define entities
    data: bytes = etree.tostring(
        tree, xml_declaration=True, encoding="UTF-8", standalone=standalone
    )
    return data


def valid_text(text: str) -> str:
    """Returns a text without the characters that XML does not allow."""
    return INVALID.sub("", text)
