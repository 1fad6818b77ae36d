"""Reads PDF files with text. The translation is a page of HTML with the paragraphs, lists and tables in their order.

A row of a table is what stands side by side with wide gaps, in two rows or more. Lost are the layout, fonts, pictures, links
and notes; a scanned page has no text. The order is that of the file, which is the reading order in files of word processors.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pypdfium2

from server.documents.document import Document, has_words
from server.errors import InvalidRequest, PayloadTooLarge
from server.text.markup.passages import escape

PAGES_LIMIT = 2_000
PARAGRAPH_GAP = 0.7
"""A larger distance between two lines, in heights of a line, begins a paragraph."""
INDENT = 0.8
"""A line that begins further to the right than the one above, in heights of a line, begins a paragraph."""
CELL_GAP = 1.5
"""A larger horizontal distance within a line, in heights of a line, is between two cells of a table."""
BULLET = re.compile(r"[•‣⁃◦▪▫●○■□∙·*–—-]\s+")
NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]\s")
HYPHEN = re.compile(r"(?<=[^\W\d_])[\u00ad\x02\ufffe-]$")
CONTROLS = re.compile(r"[\x00-\x1f\ufffe\uffff]")
Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points."""


@dataclass(slots=True)
class Piece:
    """A paragraph, an item of a list, or a cell of a table, with the HTML before and after it."""

    text: str
    before: str = "<p>"
    after: str = "</p>\n"


def read(data: bytes, target: str) -> Document:
    """Reads a PDF file. Raises InvalidRequest, also for a file without text, or PayloadTooLarge."""
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise InvalidRequest("The file is encrypted, damaged, or not a PDF file.") from error
    try:
        if len(pdf) > PAGES_LIMIT:
            raise PayloadTooLarge(f"The file has more than {PAGES_LIMIT:,} pages; split it.")
        pieces = [piece for number in range(len(pdf)) for piece in page_pieces(pdf, number)]
    except pypdfium2.PdfiumError as error:
        raise InvalidRequest("The file is damaged: a page cannot be read.") from error
    finally:
        pdf.close()
    texts = [escape(piece.text) for piece in pieces]
    with_words = [i for i, piece in enumerate(pieces) if has_words(piece.text)]
    if not with_words:
        raise InvalidRequest("The file contains no text, only pictures; recognize its text first.")

    def write(translations: Sequence[str]) -> bytes:
        made = list(texts)
        for i, translated in zip(with_words, translations, strict=True):
            made[i] = translated
        body = "".join(piece.before + text + piece.after for piece, text in zip(pieces, made, strict=True))
        return f'<!DOCTYPE html>\n<html lang="{target}"><meta charset="utf-8"><body>\n{body}</body></html>\n'.encode()

    return Document(tuple(texts[i] for i in with_words), "html", write)


def page_pieces(pdf: pypdfium2.PdfDocument, number: int) -> Iterator[Piece]:
    """Yields the paragraphs, items and cells of a page."""
    page = pdf[number]
    text_page = page.get_textpage()
    rows = joined_rows(lines(text_page))
    text_page.close()
    page.close()
    for is_table, group in groupby(rows, key=in_table(rows)):
        yield from (table_cells if is_table else paragraphs)([cells for _, cells in group])


Cell = tuple[str, Box]


def joined_rows(found: Iterable[list[Cell]]) -> list[tuple[int, list[Cell]]]:
    """Returns the lines with their numbers. Lines side by side, from left to right, are one."""
    rows: list[tuple[int, list[Cell]]] = []
    for cells in found:
        _, (left, bottom, _, top) = cells[0]
        if rows:
            _, (_, last_bottom, last_right, last_top) = rows[-1][1][-1]
            height = max(1.0, min(top - bottom, last_top - last_bottom))
            if min(top, last_top) - max(bottom, last_bottom) > height / 2 and left - last_right > CELL_GAP * height:
                rows[-1][1].extend(cells)
                continue
        rows.append((len(rows), cells))
    return rows


def in_table(rows: Sequence[tuple[int, list[Cell]]]) -> Callable[[tuple[int, list[Cell]]], bool]:
    """Returns a function that says whether a row belongs to a table: it has several cells, as the row before or after it,
    or it continues a cell that is not the first of such a row."""
    wide = [len(cells) > 1 and not is_marker(cells[0][0]) for _, cells in rows]
    table = [False] * len(rows)
    before: Box = (0.0, 0.0, 0.0, 0.0)  # the first cell of the last row with several
    for i, (_, cells) in enumerate(rows):
        if wide[i]:
            table[i] = any(wide[max(0, i - 2) : i]) or any(wide[i + 1 : i + 3])
            before = cells[0][1]
        elif i and table[i - 1] and len(cells) == 1:
            _, (left, _, _, top) = cells[0]
            table[i] = left >= before[2] and top > before[1] - 2 * (before[3] - before[1])
    return lambda row: table[row[0]]


def is_marker(text: str) -> bool:
    """Returns whether a text is only the mark of an item."""
    return bool(BULLET.fullmatch(text + " ") or NUMBER.fullmatch(text + " "))


def table_cells(rows: Sequence[list[Cell]]) -> Iterator[Piece]:
    """Yields the cells of a table. Cells of one column overlap; a row without the first column continues the one before."""
    columns: list[list[float]] = []
    for left, right in sorted((box[0], box[2]) for cells in rows for _, box in cells):
        if columns and left < columns[-1][1]:
            columns[-1][1] = max(columns[-1][1], right)
        else:
            columns.append([left, right])
    lefts = [left for left, _ in columns]
    made: list[list[str]] = []
    for cells in rows:
        numbers = [bisect_right(lefts, box[0]) - 1 for _, box in cells]
        if not made or numbers[0] == 0:
            made.append([""] * len(columns))
        for column, (text, _) in zip(numbers, cells, strict=True):
            made[-1][column] = joined(made[-1][column], text)
    for i, texts in enumerate(made):
        for column, text in enumerate(texts):
            before = ("<table>\n" if not i else "") + "<tr>" if not column else ""
            after = "</tr>\n" + ("</table>\n" if i == len(made) - 1 else "") if column == len(texts) - 1 else ""
            yield Piece(text, before + "<td>", "</td>" + after)


def paragraphs(rows: Sequence[list[Cell]]) -> Iterator[Piece]:
    """Yields the paragraphs and the items of lists. Lines are joined, and hyphens at their ends are removed."""
    pieces: list[Piece] = []
    last: Box | None = None
    for cells in rows:
        text, (left, bottom, _, top) = " ".join(text for text, _ in cells), cells[0][1]
        height = max(1.0, top - bottom)
        bullet = BULLET.match(text)
        new = last is None or last[1] - top > PARAGRAPH_GAP * height or top > last[3] + height
        new = new or (last is not None and left - last[0] > INDENT * height and top < last[1] + height / 2)
        in_item = bool(pieces) and pieces[-1].before == "<li>"
        new = (new and not (in_item and last is not None and last[1] - top <= PARAGRAPH_GAP * height)) or bool(
            bullet or NUMBER.match(text)
        )
        if bullet:
            pieces.append(Piece(text[bullet.end() :], "<li>", "</li>\n"))
        elif new:
            pieces.append(Piece(text))
        else:
            pieces[-1].text = joined(pieces[-1].text, text)
        last = cells[0][1]
    for i, piece in enumerate(pieces):
        if piece.before == "<li>":
            if not i or pieces[i - 1].after == "</p>\n" or pieces[i - 1].after.endswith("</ul>\n"):
                piece.before = "<ul>\n<li>"
            if i == len(pieces) - 1 or pieces[i + 1].before == "<p>":
                piece.after = "</li>\n</ul>\n"
    yield from pieces


def joined(text: str, line: str) -> str:
    """Returns a text with its next line. A hyphen at the end of a line is removed before a small letter."""
    without = HYPHEN.sub("", text) if line[:1].islower() else text
    return without + ("" if without != text or not text else " ") + line


def lines(text_page: pypdfium2.PdfTextPage) -> Iterator[list[Cell]]:
    """Yields the lines of a page, each in parts between wide gaps, with their boxes."""
    text = text_page.get_text_range()
    start = 0
    for line in re.split(r"(?:\r\n|\r|\n)", text):
        cells: list[tuple[list[str], list[Box]]] = []
        for i, character in enumerate(line, start):
            box = text_page.get_charbox(i) if not character.isspace() else None
            if box is None or box[2] <= box[0]:
                if cells:
                    cells[-1][0].append(character)
                    if box is not None:
                        cells[-1][1].append(box)
                elif box is not None:
                    cells.append(([character], [box]))
                continue
            last = cells[-1][1][-1] if cells else None
            if last is None or box[0] - last[2] > CELL_GAP * max(1.0, box[3] - box[1], last[3] - last[1]):
                cells.append(([], []))
            cells[-1][0].append(character)
            cells[-1][1].append(box)
        made = [(CONTROLS.sub("", "".join(characters)).strip(), around(boxes)) for characters, boxes in cells]
        if any(words for words, _ in made):
            yield [(words, box) for words, box in made if words]
        start += len(line) + (2 if text[start + len(line) : start + len(line) + 2] == "\r\n" else 1)


def around(boxes: Sequence[Box]) -> Box:
    """Returns the box around boxes."""
    lefts, bottoms, rights, tops = zip(*[box for box in boxes if box[2] > box[0]] or boxes, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)
