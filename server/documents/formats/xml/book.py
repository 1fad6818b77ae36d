"""Reads books (.epub): the pages, the table of contents, the title and the language."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from itertools import islice
from urllib.parse import unquote

from server.documents.document import Document, has_words
from server.documents.formats import html
from server.documents.formats.xml.parsing import INVALID_CHARACTERS, Element, parse_xml, write_xml
from server.documents.formats.xml.vocabularies import BOOK, DC
from server.documents.zip_archive import Archive
from server.errors import InvalidRequest
from server.text.syntax.html import parse
from server.text.tagged import escaped

OPF = "{http://www.idpf.org/2007/opf}"
CONTAINER = "META-INF/container.xml"
PAGES = "application/xhtml+xml"
CONTENTS = "application/x-dtbncx+xml"
SPACES = re.compile(r"\s+")


def read(data: bytes, target: str) -> Document:
    """Reads a book and sets its language to `target`."""
    archive = Archive(data)
    package = package_name(archive)
    root = parse_xml(archive.part(package), doctype=True)
    parts = {package: labels(root, target)}
    for item in root.iter(OPF + "item"):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href", ""))))
        if name in archive.names and name not in parts:
            if item.get("media-type") == PAGES:
                parts[name] = html.read(archive.part(name), target)
            elif item.get("media-type") == CONTENTS:
                parts[name] = labels(parse_xml(archive.part(name), doctype=True), target)

    def write(translations: Sequence[str]) -> bytes:
        made: dict[str, bytes] = {}
        rest = iter(translations)
        for name, part in parts.items():
            content = part.write(list(islice(rest, len(part.texts))))
            # XHTML does not define &nbsp;.
            made[name] = content.replace(b"&nbsp;", b"&#160;")
        return archive.replaced(made)

    return Document(tuple(text for part in parts.values() for text in part.texts), "html", write)


def package_name(archive: Archive) -> str:
    """Returns the package document's name."""
    for rootfile in parse_xml(archive.part(CONTAINER)).iter("{*}rootfile"):
        return str(rootfile.get("full-path", ""))
    raise InvalidRequest("The file is damaged: it does not say where the book is.")


def labels(root: Element, target: str) -> Document:
    """Reads the elements with plain text, and sets the language of the book."""
    elements = [element for element in root.iter(*BOOK) if has_words(element.text or "")]

    def write(translations: Sequence[str]) -> bytes:
        for element, translated in zip(elements, translations, strict=True):
            element.text = INVALID_CHARACTERS.sub("", parse(translated).text)
        for language in islice(root.iter(DC + "language"), 1):
            language.text = target
        return write_xml(root)

    return Document(tuple(escaped(SPACES.sub(" ", each.text).strip()) for each in elements), "html", write)
