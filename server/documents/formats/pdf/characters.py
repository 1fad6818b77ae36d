"""The lines of a page of a PDF file, with the places and the fonts of their characters."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from math import atan2, degrees, hypot
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as raw

CELL_GAP = 1.5
"""A larger horizontal distance within a line, in heights of a line, is between two cells of a
table."""
CONTROLS = re.compile(r"[\x00-\x1f\ufffe\uffff]")
NAME_BYTES = 128
SERIF, ITALIC, FORCE_BOLD = 1 << 1, 1 << 6, 1 << 18
"""Flags of a font in ISO 32000."""
HIDDEN = raw.FPDF_TEXTRENDERMODE_INVISIBLE
Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points."""


class Font(NamedTuple):
    """The size in points of a text, how it looks, its color as "#000000", and how far it is
    rotated, in degrees. A hidden one belongs to a scanned page."""

    size: float
    bold: bool
    italic: bool
    serif: bool
    color: str
    angle: int
    hidden: bool


class Cell(NamedTuple):
    """A line of a page, or a part of it between wide gaps. The font is that of its middle."""

    text: str
    box: Box
    font: Font


def lines(text_page: pypdfium2.PdfTextPage) -> Iterator[list[Cell]]:
    """Yields the lines of a page, each in parts between wide gaps, with their boxes."""
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
    """Returns the place of the character in the middle of a text at a place. White space may have
    another font."""
    return at + len("".join(words[: len(words) // 2 + 1]).rstrip()) - 1


def around(boxes: Sequence[Box]) -> Box:
    """Returns the box around boxes."""
    lefts, bottoms, rights, tops = zip(
        *[box for box in boxes if box[2] > box[0]] or boxes, strict=True
    )
    return min(lefts), min(bottoms), max(rights), max(tops)


def font_at(text_page: pypdfium2.PdfTextPage, index: int) -> Font:
    """Returns the font of a character."""
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
