"""Parses and writes XML files of untrusted origin."""

from __future__ import annotations

from typing import Any

from lxml import etree

from server.errors import InvalidRequest

Element = Any
"""An element of lxml, which has no type annotations."""


def parse_xml(data: bytes, doctype: bool = False) -> Element:
    """Returns the root element of an XML file. Entities are not expanded, nothing is fetched, and lxml limits the
    depth.

    Raises InvalidRequest, also for a document type declaration unless `doctype`: office formats have none.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise InvalidRequest("The file is damaged: a part of it is not well-formed XML.") from error
    if parser.error_log.filter_from_errors():  # lxml does not raise an error that is followed by a warning
        raise InvalidRequest("The file is damaged: a part of it is not well-formed XML.")
    document = root.getroottree().docinfo
    if document.doctype and not doctype:
        raise InvalidRequest("The file is damaged: a part of it declares a document type.")
    subset = document.internalDTD
    if subset is not None and (subset.entities() or subset.elements()):
        raise InvalidRequest("A part of the file defines entities or elements of its own; remove its document type.")
    return root


def write_xml(root: Element) -> bytes:
    """Returns an XML file as bytes in UTF-8."""
    tree = root.getroottree()
    standalone = None if tree.docinfo.doctype else True  # a document type may define the entities of the file
    data: bytes = etree.tostring(tree, xml_declaration=True, encoding="UTF-8", standalone=standalone)
    return data
