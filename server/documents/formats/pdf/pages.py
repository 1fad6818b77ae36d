"""Reads the pages of a PDF file with text, in the order of the file, and translates them into a page
of HTML with paragraphs, lists and tables, without pictures, links and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter

import pypdfium2

from server.documents.document import Document, has_words
from server.documents.formats.pdf.paragraphs import Page, Piece, lines, pieces_of
from server.errors import InvalidRequest, PayloadTooLarge
from server.text.tagged import escaped

PAGES_LIMIT = 2_000
AROUND = {"p": ("", ""), "li": ("<ul>\n", "</ul>\n"), "td": ("<table>\n", "</table>\n")}
"""The HTML before and after neighbouring pieces of one kind."""


def document_of(data: bytes, write_pages: Callable[[Sequence[Page]], bytes]) -> Document:
    """Reads a PDF file whose translation `write_pages` writes. Raises PayloadTooLarge, and
    InvalidRequest also for a file without text."""
    pages = read_pages(data)
    pieces = [piece for page in pages for piece in page.pieces if has_words(piece.text)]
    if not pieces:
        raise InvalidRequest("The file contains no text, only pictures; recognize its text first.")

    def write(translations: Sequence[str]) -> bytes:
        for piece, translated in zip(pieces, translations, strict=True):
            piece.text = translated
        return write_pages(pages)

    return Document(tuple(piece.text for piece in pieces), "coded", write)


def read_pages(data: bytes) -> list[Page]:
    """Reads the pages of a PDF file. Raises InvalidRequest or PayloadTooLarge."""
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise InvalidRequest("The file is encrypted, damaged, or not a PDF file.") from error
    try:
        if len(pdf) > PAGES_LIMIT:
            raise PayloadTooLarge(f"The file has more than {PAGES_LIMIT:,} pages; split it.")
        return [page_of(pdf, number) for number in range(len(pdf))]
    except pypdfium2.PdfiumError as error:
        raise InvalidRequest("The file is damaged: a page cannot be read.") from error
    finally:
        pdf.close()


def page_of(pdf: pypdfium2.PdfDocument, number: int) -> Page:
    page = pdf[number]
    text_page = page.get_textpage()
    read = Page(page.get_bbox(), list(pieces_of(lines(text_page))))
    text_page.close()
    page.close()
    return read


def read(data: bytes, target: str) -> Document:
    """Reads a PDF file. Raises InvalidRequest, also for a file without text, or PayloadTooLarge."""
    head = f'<!DOCTYPE html>\n<html lang="{target}"><meta charset="utf-8"><body>\n'
    return document_of(
        data,
        lambda pages: (
            head + "".join(written(page.pieces) for page in pages) + "</body></html>\n"
        ).encode(),
    )


def written(pieces: Iterable[Piece]) -> str:
    """Returns the pieces of a page as HTML."""
    html = ""
    for kind, group in groupby(pieces, key=attrgetter("kind")):
        elements = [
            (piece.row, f"<{kind}>{escaped(piece.text + piece.leader)}</{kind}>") for piece in group
        ]
        if kind == "td":
            rows = groupby(elements, key=itemgetter(0))
            elements = [
                (row, f"<tr>{''.join(cell for _, cell in cells)}</tr>") for row, cells in rows
            ]
        html += (
            AROUND[kind][0] + "".join(element + "\n" for _, element in elements) + AROUND[kind][1]
        )
    return html
