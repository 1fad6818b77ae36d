"""Reads books (.epub): the pages, the table of contents, the title and the language."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from itertools import islice
from urllib.parse import unquote

from server.documents.document import Document, has_words
from server.documents.formats import html
from server.documents.formats.xml.office import Label
from server.documents.formats.xml.parsing import parse_xml, write_xml
from server.documents.formats.xml.vocabularies import BOOK, DC
from server.documents.zip_archive import Archive
from server.text.syntax.html import parse
from server.text.tagged import escaped

OPF = "{http://www.idpf.org/2007/opf}"
CONTAINER = "META-INF/container.xml"
PAGES = "application/xhtml+xml"
CONTENTS = "application/x-dtbncx+xml"


def read(data: bytes, target: str) -> Document:
    """Reads a book and sets its language to `target`."""
    archive = Archive(data)
    rootfiles = parse_xml(archive.part(CONTAINER)).iter("{*}rootfile")
    package = next((rootfile.get("full-path", "") for rootfile in rootfiles), "")
    roots = {package: parse_xml(archive.part(package), doctype=True)}
    pages: dict[str, Document] = {}
    for item in roots[package].iter(OPF + "item"):
        name = posixpath.normpath(
            posixpath.join(posixpath.dirname(package), unquote(item.get("href", "")))
        )
        if name in archive.names and name not in {*roots, *pages}:
            if item.get("media-type") == PAGES:
                pages[name] = html.read(archive.part(name), target)
            elif item.get("media-type") == CONTENTS:
                roots[name] = parse_xml(archive.part(name), doctype=True)
    labels = [
        Label(element)
        for root in roots.values()
        for element in root.iter(*BOOK)
        if has_words(element.text or "")
    ]

    def write(translations: Sequence[str]) -> bytes:
        rest = iter(translations)
        for label in labels:
            label.fill(parse(next(rest)).text)
        for language in islice(roots[package].iter(DC + "language"), 1):
            language.text = target
        made = {name: write_xml(root) for name, root in roots.items()}
        for name, page in pages.items():  # XHTML does not define &nbsp;.
            made[name] = page.write(list(islice(rest, len(page.texts)))).replace(
                b"&nbsp;", b"&#160;"
            )
        return archive.replaced(made)

    texts = [text for page in pages.values() for text in page.texts]
    return Document((*(escaped(label.tagged.text) for label in labels), *texts), "html", write)
