"""The paragraphs, items of lists and tables of a page of a PDF file.

A row of a table is what stands side by side with wide gaps, in two rows or more.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from server.documents.formats.pdf.characters import CELL_GAP, Box, Cell, Font, around

PARAGRAPH_GAP = 0.7
"""A larger distance between two lines, in heights of a line, begins a paragraph."""
INDENT = 0.8
"""A line that begins further to the right than the one above, in heights of a line, begins a
paragraph."""
BULLET = re.compile(r"[•‣⁃◦▪▫●○■□∙·*–—-]\s+")
NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]\s")
HYPHEN = re.compile(r"(?<=[^\W\d_])[\u00ad\x02\ufffe-]$")
LEADER = re.compile(r"(?<![. ]) ?\.[. ]{5,}+[^. ]{,12}$")
EDGE = 6.0
"""Largest distance in points of a paragraph from the place where it is aligned."""


@dataclass(slots=True)
class Piece:
    """A paragraph, an item of a list (without its mark), or a cell of a table in the `row` of this
    number. The box of a cell is as wide as its column. A `leader` is the dots after a title, with
    the number of its page."""

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


def pieces_of(found: Iterable[list[Cell]]) -> Iterator[Piece]:
    """Yields the paragraphs, items and cells of the lines of a page."""
    rows = joined_rows(found)
    for is_table, group in groupby(zip(in_table(rows), rows, strict=True), key=itemgetter(0)):
        yield from (table_cells if is_table else paragraphs)([cells for _, cells in group])


def joined_rows(found: Iterable[list[Cell]]) -> list[list[Cell]]:
    """Returns the lines. Those side by side, from left to right, are one."""
    rows: list[list[Cell]] = []
    for cells in found:
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
    """Returns for each row whether it belongs to a table: it has several cells, as the row before
    or after it, or it continues a cell that is not the first of such a row."""
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
    """Returns whether a text is only the mark of an item."""
    return bool(BULLET.fullmatch(text + " ") or NUMBER.fullmatch(text + " "))


def table_cells(rows: Sequence[list[Cell]]) -> Iterator[Piece]:
    """Yields the cells of a table. Cells of one column overlap; a row without the first column
    continues the one before."""
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
    """Yields the paragraphs and the items of lists. Lines are joined, and hyphens at their ends are
    removed."""
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
