"""Reads PDF files with text. The translation is a page of HTML with the paragraphs, lists and tables in their order, or a
file for Word, which keeps more of the layout; see `pdf_word`.

A row of a table is what stands side by side with wide gaps, in two rows or more. Lost are pictures, links and notes; a
scanned page has no text. The order is that of the file, which is the reading order in files of word processors.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from math import hypot
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as raw

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
NAME_BYTES = 128
SIZE_LIMIT = 1_638.0
"""Largest size of letters in Word, in points."""
SERIF, ITALIC, FORCE_BOLD = 1 << 1, 1 << 6, 1 << 18
"""Flags of a font in ISO 32000."""
Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points."""


class Font(NamedTuple):
    """The size in points of a text, and how it looks."""

    size: float
    bold: bool
    italic: bool
    serif: bool


class Cell(NamedTuple):
    """A line of a page, or a part of it between wide gaps. The font is that of its middle."""

    text: str
    box: Box
    font: Font


@dataclass(slots=True)
class Piece:
    """A paragraph, an item of a list, or a cell of a table, with the HTML before and after it. The box of a cell is as wide
    as its column."""

    text: str
    box: Box
    font: Font
    before: str = "<p>"
    after: str = "</p>\n"


class Page(NamedTuple):
    """The size of a page in points, and its pieces in order."""

    width: float
    height: float
    pieces: list[Piece]


def read(data: bytes, target: str) -> Document:
    """Reads a PDF file, for a page of HTML. Raises InvalidRequest, also for a file without text, or PayloadTooLarge."""
    pieces = [piece for page in read_pages(data) for piece in page.pieces]

    def write(texts: Sequence[str]) -> bytes:
        body = "".join(piece.before + text + piece.after for piece, text in zip(pieces, texts, strict=True))
        return f'<!DOCTYPE html>\n<html lang="{target}"><meta charset="utf-8"><body>\n{body}</body></html>\n'.encode()

    return document_of(pieces, write)


def document_of(pieces: Sequence[Piece], write_all: Callable[[Sequence[str]], bytes]) -> Document:
    """Returns the document of these pieces. `write_all` takes the text of each in HTML, also of those without words. Raises
    InvalidRequest for pieces without text."""
    texts = [escape(piece.text) for piece in pieces]
    with_words = [i for i, piece in enumerate(pieces) if has_words(piece.text)]
    if not with_words:
        raise InvalidRequest("The file contains no text, only pictures; recognize its text first.")

    def write(translations: Sequence[str]) -> bytes:
        made = list(texts)
        for i, translated in zip(with_words, translations, strict=True):
            made[i] = translated
        return write_all(made)

    return Document(tuple(texts[i] for i in with_words), "html", write)


def read_pages(data: bytes) -> list[Page]:
    """Reads the pages of a PDF file. Raises InvalidRequest or PayloadTooLarge."""
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise InvalidRequest("The file is encrypted, damaged, or not a PDF file.") from error
    try:
        if len(pdf) > PAGES_LIMIT:
            raise PayloadTooLarge(f"The file has more than {PAGES_LIMIT:,} pages; split it.")
        pages = []
        for number in range(len(pdf)):
            width, height = pdf.get_page_size(number)
            pages.append(Page(width, height, list(page_pieces(pdf, number))))
        return pages
    except pypdfium2.PdfiumError as error:
        raise InvalidRequest("The file is damaged: a page cannot be read.") from error
    finally:
        pdf.close()


def page_pieces(pdf: pypdfium2.PdfDocument, number: int) -> Iterator[Piece]:
    """Yields the paragraphs, items and cells of a page."""
    page = pdf[number]
    text_page = page.get_textpage()
    rows = joined_rows(lines(text_page))
    text_page.close()
    page.close()
    for is_table, group in groupby(rows, key=in_table(rows)):
        yield from (table_cells if is_table else paragraphs)([cells for _, cells in group])


def joined_rows(found: Iterable[list[Cell]]) -> list[tuple[int, list[Cell]]]:
    """Returns the lines with their numbers. Lines side by side, from left to right, are one."""
    rows: list[tuple[int, list[Cell]]] = []
    for cells in found:
        left, bottom, _, top = cells[0].box
        if rows:
            _, last_bottom, last_right, last_top = rows[-1][1][-1].box
            height = max(1.0, min(top - bottom, last_top - last_bottom))
            if min(top, last_top) - max(bottom, last_bottom) > height / 2 and left - last_right > CELL_GAP * height:
                rows[-1][1].extend(cells)
                continue
        rows.append((len(rows), cells))
    return rows


def in_table(rows: Sequence[tuple[int, list[Cell]]]) -> Callable[[tuple[int, list[Cell]]], bool]:
    """Returns a function that says whether a row belongs to a table: it has several cells, as the row before or after it,
    or it continues a cell that is not the first of such a row."""
    wide = [len(cells) > 1 and not is_marker(cells[0].text) for _, cells in rows]
    table = [False] * len(rows)
    before: Box = (0.0, 0.0, 0.0, 0.0)  # the first cell of the last row with several
    for i, (_, cells) in enumerate(rows):
        if wide[i]:
            table[i] = any(wide[max(0, i - 2) : i]) or any(wide[i + 1 : i + 3])
            before = cells[0].box
        elif i and table[i - 1] and len(cells) == 1:
            left, _, _, top = cells[0].box
            table[i] = left >= before[2] and top > before[1] - 2 * (before[3] - before[1])
    return lambda row: table[row[0]]


def is_marker(text: str) -> bool:
    """Returns whether a text is only the mark of an item."""
    return bool(BULLET.fullmatch(text + " ") or NUMBER.fullmatch(text + " "))


def table_cells(rows: Sequence[list[Cell]]) -> Iterator[Piece]:
    """Yields the cells of a table. Cells of one column overlap; a row without the first column continues the one before."""
    columns: list[list[float]] = []
    for left, right in sorted((cell.box[0], cell.box[2]) for cells in rows for cell in cells):
        if columns and left < columns[-1][1]:
            columns[-1][1] = max(columns[-1][1], right)
        else:
            columns.append([left, right])
    lefts = [left for left, _ in columns]
    ends = [*lefts[1:], columns[-1][1]]
    made: list[list[Piece]] = []
    for cells in rows:
        numbers = [bisect_right(lefts, cell.box[0]) - 1 for cell in cells]
        _, bottom, _, top = around([cell.box for cell in cells])
        if not made or numbers[0] == 0:
            font = cells[0].font
            made.append([Piece("", (*places, top), font) for places in zip(lefts, repeat(bottom), ends)])
        for column, cell in zip(numbers, cells, strict=True):
            piece = made[-1][column]
            piece.font = piece.font if piece.text else cell.font
            piece.text = joined(piece.text, cell.text)
    for i, row in enumerate(made):
        for column, piece in enumerate(row):
            piece.before = (("<table>\n" if not i else "") + "<tr>" if not column else "") + "<td>"
            end = "</tr>\n" + ("</table>\n" if i == len(made) - 1 else "") if column == len(row) - 1 else ""
            piece.after = "</td>" + end
            yield piece


def paragraphs(rows: Sequence[list[Cell]]) -> Iterator[Piece]:
    """Yields the paragraphs and the items of lists. Lines are joined, and hyphens at their ends are removed."""
    pieces: list[Piece] = []
    last: Box | None = None
    for cells in rows:
        text, (left, bottom, _, top) = " ".join(cell.text for cell in cells), cells[0].box
        box, font = around([cell.box for cell in cells]), cells[0].font
        height = max(1.0, top - bottom)
        bullet = BULLET.match(text)
        new = last is None or last[1] - top > PARAGRAPH_GAP * height or top > last[3] + height
        new = new or (last is not None and left - last[0] > INDENT * height and top < last[1] + height / 2)
        in_item = bool(pieces) and pieces[-1].before == "<li>"
        new = (new and not (in_item and last is not None and last[1] - top <= PARAGRAPH_GAP * height)) or bool(
            bullet or NUMBER.match(text)
        )
        if bullet:
            pieces.append(Piece(text[bullet.end() :], box, font, "<li>", "</li>\n"))
        elif new:
            pieces.append(Piece(text, box, font))
        else:
            pieces[-1].text = joined(pieces[-1].text, text)
            pieces[-1].box = around([pieces[-1].box, box])
        last = cells[0].box
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
        cells: list[tuple[int, list[str], list[Box]]] = []
        for i, character in enumerate(line, start):
            box = text_page.get_charbox(i) if not character.isspace() else None
            if box is None or box[2] <= box[0]:
                if cells:
                    cells[-1][1].append(character)
                    if box is not None:
                        cells[-1][2].append(box)
                elif box is not None:
                    cells.append((i, [character], [box]))
                continue
            last = cells[-1][2][-1] if cells else None
            if last is None or box[0] - last[2] > CELL_GAP * max(1.0, box[3] - box[1], last[3] - last[1]):
                cells.append((i, [], []))
            cells[-1][1].append(character)
            cells[-1][2].append(box)
        made = [
            (CONTROLS.sub("", "".join(words)).strip(), around(boxes), at + len(words) // 2)
            for at, words, boxes in cells
        ]
        if any(words for words, *_ in made):
            yield [Cell(words, box, font_at(text_page, middle)) for words, box, middle in made if words]
        start += len(line) + (2 if text[start + len(line) : start + len(line) + 2] == "\r\n" else 1)


def around(boxes: Sequence[Box]) -> Box:
    """Returns the box around boxes."""
    lefts, bottoms, rights, tops = zip(*[box for box in boxes if box[2] > box[0]] or boxes, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


def font_at(text_page: pypdfium2.PdfTextPage, index: int) -> Font:
    """Returns the font of a character."""
    name, flags, matrix = ctypes.create_string_buffer(NAME_BYTES), ctypes.c_int(), raw.FS_MATRIX()
    raw.FPDFText_GetFontInfo(text_page, index, name, NAME_BYTES, flags)
    raw.FPDFText_GetMatrix(text_page, index, matrix)
    size = raw.FPDFText_GetFontSize(text_page, index) * hypot(matrix.c, matrix.d)
    bold = b"bold" in name.value.lower() or bool(flags.value & FORCE_BOLD)
    italic = re.search(b"italic|oblique", name.value.lower()) is not None or bool(flags.value & ITALIC)
    return Font(
        round(2 * min(max(1.0, size), SIZE_LIMIT)) / 2,
        bold,
        italic,
        bool(flags.value & SERIF) or b"Rom" in name.value or b"Times" in name.value,
    )
