"""PDF files whose translation is a page of HTML with the paragraphs, lists and tables in their order. Lost are pictures,
links and notes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter, itemgetter

from server.documents.document import Document
from server.documents.formats.pdf.pages import document_of
from server.documents.formats.pdf.paragraphs import Piece
from server.text.tagged import escaped

AROUND = {"p": ("", ""), "li": ("<ul>\n", "</ul>\n"), "td": ("<table>\n", "</table>\n")}
"""The HTML before and after neighbouring pieces of one kind."""


def read(data: bytes, target: str) -> Document:
    """Reads a PDF file. Raises InvalidRequest, also for a file without text, or PayloadTooLarge."""
    head = f'<!DOCTYPE html>\n<html lang="{target}"><meta charset="utf-8"><body>\n'
    return document_of(
        data, lambda pages: (head + "".join(written(page.pieces) for page in pages) + "</body></html>\n").encode()
    )


def written(pieces: Iterable[Piece]) -> str:
    """Returns the pieces of a page as HTML."""
    html = ""
    for kind, group in groupby(pieces, key=attrgetter("kind")):
        elements = [(piece.row, f"<{kind}>{escaped(piece.text + piece.leader)}</{kind}>") for piece in group]
        if kind == "td":
            rows = groupby(elements, key=itemgetter(0))
            elements = [(row, f"<tr>{''.join(cell for _, cell in cells)}</tr>") for row, cells in rows]
        html += AROUND[kind][0] + "".join(element + "\n" for _, element in elements) + AROUND[kind][1]
    return html
