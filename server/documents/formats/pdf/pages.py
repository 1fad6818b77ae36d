"""Reads the pages of a PDF file in the order of the file, and translates them into a page of HTML
without pictures, links and notes.

Paragraphs, items of lists and tables are found by the places and the fonts of characters. A table
is two or more rows of texts side by side with wide gaps.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import atan2, degrees, hypot
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple

import pypdfium2
import pypdfium2.raw as raw

from server.documents.document import Document, has_words
from server.errors import InvalidRequest, PayloadTooLarge
from server.text.tagged import escaped

CELL_GAP = 1.5
"""Least distance between two cells of a table, in heights of a line."""
CONTROLS = re.compile(r"[\x00-\x1f\ufffe\uffff]")
NAME_BYTES = 128
SERIF, ITALIC, FORCE_BOLD = 1 << 1, 1 << 6, 1 << 18
"""Flags of a font in ISO 32000."""
HIDDEN = raw.FPDF_TEXTRENDERMODE_INVISIBLE
Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points."""
PARAGRAPH_GAP = 0.7
"""Least distance between two paragraphs, in heights of a line."""
INDENT = 0.8
"""Least indentation of the first line of a paragraph, in heights of a line."""
BULLET = re.compile(r"[•‣⁃◦▪▫●○■□∙·*–—-]\s+")
NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]\s")
HYPHEN = re.compile(r"(?<=[^\W\d_])[\u00ad\x02\ufffe-]$")
LEADER = re.compile(r"(?<![. ]) ?\.[. ]{5,}+[^. ]{,12}$")
EDGE = 6.0
"""Largest distance in points of a paragraph from its alignment."""
PAGES_LIMIT = 2_000
AROUND = {"p": ("", ""), "li": ("<ul>\n", "</ul>\n"), "td": ("<table>\n", "</table>\n")}
"""The HTML before and after neighbouring pieces of one kind."""


class Font(NamedTuple):
    """The font of a text: its size in points, color as "#000000", and rotation in degrees. The text
    of a scanned page is hidden."""

    size: float
    bold: bool
    italic: bool
    serif: bool
    color: str
    angle: int
    hidden: bool


class Cell(NamedTuple):
    """A part of a line between wide gaps, with the font of its middle."""

    text: str
    box: Box
    font: Font


def lines(text_page: pypdfium2.PdfTextPage) -> Iterator[list[Cell]]:
    """Yields the lines of a page in parts between wide gaps."""
    text = text_page.get_text_range()
    start = 0
    for line in re.split(r"(?:\r\n|\r|\n)", text):
        cells: list[tuple[int, list[str], list[Box]]] = []
        for i, character in enumerate(line, start):
            box = None if character.isspace() else text_page.get_charbox(i)
            if box is None and not cells:
                continue
            last = cells[-1][2][-1] if cells else None
            gap = CELL_GAP * max(1.0, box[3] - box[1], last[3] - last[1]) if box and last else 0.0
            if last is None or (box and box[2] > box[0] and box[0] - last[2] > gap):
                cells.append((i, [], []))
            cells[-1][1].append(character)
            if box is not None:
                cells[-1][2].append(box)
        made = [
            (CONTROLS.sub("", "".join(words)).strip(), around(boxes), middle_of(words, at))
            for at, words, boxes in cells
        ]
        if any(words for words, *_ in made):
            yield [
                Cell(words, box, font_at(text_page, middle)) for words, box, middle in made if words
            ]
        start += len(line) + (2 if text[start + len(line) : start + len(line) + 2] == "\r\n" else 1)


def middle_of(words: Sequence[str], at: int) -> int:
    """Returns the place of the middle character of a text, before white space in another font."""
    return at + len("".join(words[: len(words) // 2 + 1]).rstrip()) - 1


def around(boxes: Sequence[Box]) -> Box:
    lefts, bottoms, rights, tops = zip(
        *[box for box in boxes if box[2] > box[0]] or boxes, strict=True
    )
    return min(lefts), min(bottoms), max(rights), max(tops)


def font_at(text_page: pypdfium2.PdfTextPage, index: int) -> Font:
    name, flags, matrix = ctypes.create_string_buffer(NAME_BYTES), ctypes.c_int(), raw.FS_MATRIX()
    color = [ctypes.c_uint() for _ in range(4)]
    raw.FPDFText_GetFontInfo(text_page, index, name, NAME_BYTES, flags)
    raw.FPDFText_GetMatrix(text_page, index, matrix)
    raw.FPDFText_GetFillColor(text_page, index, *color)
    size = raw.FPDFText_GetFontSize(text_page, index) * hypot(matrix.c, matrix.d)
    return Font(
        round(2 * max(1.0, size)) / 2,
        re.search(b"bold|medi", name.value.lower()) is not None or bool(flags.value & FORCE_BOLD),
        re.search(b"italic|oblique", name.value.lower()) is not None or bool(flags.value & ITALIC),
        bool(flags.value & SERIF) or b"Rom" in name.value or b"Times" in name.value,
        "#" + "".join(f"{part.value:02x}" for part in color[:3]),
        round(degrees(atan2(matrix.b, matrix.a))),
        raw.FPDFTextObj_GetTextRenderMode(raw.FPDFText_GetTextObject(text_page, index)) == HIDDEN,
    )


@dataclass(slots=True)
class Piece:
    """A paragraph, an item of a list without its mark, or a cell of a table in row number `row`,
    with the box of its column. A `leader` is the dots after a title with the number of its page."""

    text: str
    box: Box
    font: Font
    kind: Literal["p", "li", "td"] = "p"
    row: int = 0
    leader: str = ""


class Page(NamedTuple):
    """The box of a page before it is rotated, and its pieces in order."""

    box: Box
    pieces: list[Piece]


def pieces_of(lines: Iterable[list[Cell]]) -> Iterator[Piece]:
    """Yields the paragraphs, items and cells of the lines of a page."""
    rows = joined_rows(lines)
    for is_table, group in groupby(zip(in_table(rows), rows, strict=True), key=itemgetter(0)):
        yield from (table_cells if is_table else paragraphs)([cells for _, cells in group])


def joined_rows(lines: Iterable[list[Cell]]) -> list[list[Cell]]:
    """Returns the lines, of which those side by side are joined."""
    rows: list[list[Cell]] = []
    for cells in lines:
        left, bottom, _, top = cells[0].box
        if rows:
            _, last_bottom, last_right, last_top = rows[-1][-1].box
            height = max(1.0, min(top - bottom, last_top - last_bottom))
            if (
                min(top, last_top) - max(bottom, last_bottom) > height / 2
                and left - last_right > CELL_GAP * height
            ):
                rows[-1].extend(cells)
                continue
        rows.append(cells)
    return rows


def in_table(rows: Sequence[list[Cell]]) -> list[bool]:
    """Returns for each row whether it belongs to a table: it has several cells, like a row near it,
    or continues a cell of such a row that is not the first."""
    wide = [len(cells) - is_marker(cells[0].text) > 1 for cells in rows]
    table = [False] * len(rows)
    before: Box = (0.0, 0.0, 0.0, 0.0)  # the first cell of the last row with several
    for i, cells in enumerate(rows):
        if wide[i]:
            table[i] = any(wide[max(0, i - 2) : i]) or any(wide[i + 1 : i + 3])
            before = cells[0].box
        elif i and table[i - 1] and len(cells) == 1:
            left, _, _, top = cells[0].box
            table[i] = left >= before[2] and top > before[1] - 2 * (before[3] - before[1])
    return table


def is_marker(text: str) -> bool:
    return bool(BULLET.fullmatch(text + " ") or NUMBER.fullmatch(text + " "))


def table_cells(rows: Sequence[list[Cell]]) -> Iterator[Piece]:
    """Yields the cells of a table. Cells of one column overlap. A row without the first column
    continues the row before."""
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
            boxes = [(left, bottom, end, top) for left, end in zip(lefts, ends, strict=True)]
            made.append([Piece("", box, cells[0].font, "td", len(made)) for box in boxes])
        for column, cell in zip(numbers, cells, strict=True):
            piece = made[-1][column]
            piece.font = piece.font if piece.text else cell.font
            piece.text = joined(piece.text, cell.text)
            piece.box = (piece.box[0], bottom, *piece.box[2:])
    yield from (piece for row in made for piece in row)


def paragraphs(rows: Sequence[list[Cell]]) -> Iterator[Piece]:
    """Yields the paragraphs and items of lists with their lines joined."""
    pieces: list[Piece] = []
    last: Box | None = None
    for cells in rows:
        text, (left, bottom, _, top) = " ".join(cell.text for cell in cells), cells[0].box
        box, font = around([cell.box for cell in cells]), cells[0].font
        height = max(1.0, top - bottom)
        bullet = BULLET.match(text)
        new = bool(bullet or NUMBER.match(text)) or last is None
        if not new and last is not None:
            is_near = last[1] - top <= PARAGRAPH_GAP * height
            is_indented = left - last[0] > INDENT * height and top < last[1] + height / 2
            new = not is_near or (
                (top > last[3] + height or is_indented) and pieces[-1].kind != "li"
            )
        if bullet:
            pieces.append(Piece(text[bullet.end() :], box, font, "li"))
        elif new:
            pieces.append(Piece(text, box, font))
        else:
            pieces[-1].text = joined(pieces[-1].text, text)
            pieces[-1].box = around([pieces[-1].box, box])
        last = cells[0].box
    for piece in pieces:
        if leader := LEADER.search(piece.text):
            piece.text, piece.leader = piece.text[: leader.start()], leader[0]
        yield piece


def joined(text: str, line: str) -> str:
    """Returns a text with its next line. A hyphen at the end of a line is removed before a small
    letter."""
    without = HYPHEN.sub("", text) if line[:1].islower() else text
    return without + ("" if without != text or not text else " ") + line


def alignment(piece: Piece, left: float, right: float) -> Literal["left", "center", "right"]:
    """Returns the alignment of a paragraph between these edges."""
    start, end = piece.box[0] - left, right - piece.box[2]
    if start > 4 * EDGE and abs(start - end) / 2 < EDGE:
        return "center"
    one_line = piece.box[3] - piece.box[1] < 2 * piece.font.size
    return "right" if start > (right - left) / 2 and abs(end) < EDGE and one_line else "left"


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
