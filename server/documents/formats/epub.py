"""Reads books (.epub): the pages, the table of contents, the title and the language."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote

from server.documents.document import Document, has_words
from server.documents.formats.html import page, with_language
from server.documents.formats.xml_inline import Element, parse_xml, plain, write_xml
from server.documents.zip_archive import Archive
from server.errors import InvalidRequest
from server.text.markup.passages import escape

OPF = "{http://www.idpf.org/2007/opf}"
DC = "{http://purl.org/dc/elements/1.1/}"
NCX = "{http://www.daisy.org/z3986/2005/ncx/}"
CONTAINER = "META-INF/container.xml"
PAGES = "application/xhtml+xml"
CONTENTS = "application/x-dtbncx+xml"
SPACES = re.compile(r"\s+")

Part = tuple[tuple[str, ...], Callable[[Sequence[str]], bytes]]
"""The texts of one file of the archive, and the function that writes the file with their translations."""


def read(data: bytes, target: str) -> Document:
    """Reads a book and sets its language to `target`. Raises InvalidRequest or PayloadTooLarge."""
    archive = Archive(data)
    package = package_name(archive)
    root = parse_xml(archive.part(package), doctype=True)
    parts = {package: package_part(root, target)}
    for item in root.iter(OPF + "item"):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href", ""))))
        if name in archive.names and name not in parts:
            if item.get("media-type") == PAGES:
                parts[name] = page_part(archive.part(name), target)
            elif item.get("media-type") == CONTENTS:
                parts[name] = contents_part(archive.part(name))

    def write(translations: Sequence[str]) -> bytes:
        made: dict[str, bytes] = {}
        done = 0
        for name, (texts, write_part) in parts.items():
            made[name] = write_part(translations[done : done + len(texts)])
            done += len(texts)
        return archive.replaced(made)

    return Document(tuple(text for texts, _ in parts.values() for text in texts), "html", write)


def package_name(archive: Archive) -> str:
    """Returns the name of the package document. Raises InvalidRequest if the container does not name it."""
    for rootfile in parse_xml(archive.part(CONTAINER)).iter("{*}rootfile"):
        return str(rootfile.get("full-path", ""))
    raise InvalidRequest("The file is damaged: it does not say where the book is.")


def package_part(root: Element, target: str) -> Part:
    """Reads the package document: its titles are translated and its language is set."""
    texts, write_titles = labels(root, DC + "title")

    def write(translations: Sequence[str]) -> bytes:
        for language in list(root.iter(DC + "language"))[:1]:
            language.text = target
        return write_titles(translations)

    return texts, write


def contents_part(data: bytes) -> Part:
    """Reads the table of contents for older e-readers (NCX)."""
    return labels(parse_xml(data, doctype=True), NCX + "text")


def labels(root: Element, tag: str) -> Part:
    """Reads the elements with this tag, which contain plain text."""
    elements = [element for element in root.iter(tag) if has_words(element.text or "")]

    def write(translations: Sequence[str]) -> bytes:
        for element, translated in zip(elements, translations, strict=True):
            element.text = plain(translated)
        return write_xml(root)

    return tuple(escape(SPACES.sub(" ", element.text).strip()) for element in elements), write


def page_part(data: bytes, target: str) -> Part:
    """Reads one page. The no-break space is written as a number, since XHTML does not define &nbsp;."""
    document = page(data)

    def write(translations: Sequence[str]) -> bytes:
        return with_language(document.write(translations).replace(b"&nbsp;", b"&#160;"), target)

    return document.texts, write
