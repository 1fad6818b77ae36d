"""Writes a drawing as a PDF of one page: vector shapes, heat maps as images, and text in embedded subsets of its fonts.

The file has no dates, so equal drawings give equal bytes. Sections are those of ISO 32000-1.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from server.inspection.pictures.drawing import Box, Cells, Curve, Drawing, Text
from server.inspection.pictures.fonts import FontFile, Run, shape
from server.inspection.pictures.pdf_font import EmbeddedFont
from server.inspection.pictures.themes import ramp

POINTS = 0.75
"""Points per pixel: a pixel is 1/96 of an inch, a point 1/72."""
_PIXELS_PER_CELL = 8
"""Cells are repeated this often in an image, because some viewers blur enlarged images."""
_IMAGE_PIXELS = 1_000_000
"""Pixels of an image beyond which its cells are repeated less often."""


class PdfWriter:
    """Collects the objects of one file. Object 1 is the catalog, 2 the list of pages, 3 the page, 4 its content.

    `compression` is the level of zlib; a low one is for a file that is painted at once.
    """

    def __init__(self, drawing: Drawing, compression: int = 6) -> None:
        self._drawing = drawing
        self._compression = compression
        self._content: list[str] = []
        self._extra: list[bytes] = []  # objects from number 5 on
        self._fonts: dict[FontFile, EmbeddedFont] = {}
        self._images: list[int] = []
        self._opacities: dict[int, str] = {}

    def write(self, width: float) -> bytes:
        """Returns the file, `width` pixels wide."""
        drawing = self._drawing
        scale = POINTS * width / drawing.width
        box = f"0 0 {_n(drawing.width * scale)} {_n(drawing.height * scale)}"
        self._content.append(f"{_n(scale)} 0 0 {_n(-scale)} 0 {_n(drawing.height * scale)} cm")
        self._box(Box(0, 0, drawing.width, drawing.height, drawing.theme.background))
        for item in drawing.shapes:
            match item:
                case Box():
                    self._box(item)
                case Curve():
                    self._curve(item)
                case Text():
                    self._text(item)
                case Cells():
                    self._cells(item)
        content = self._stream("\n".join(self._content).encode("ascii"))
        page = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]/Contents 4 0 R/Resources<</Font<<{self._font_objects()}>>"
            f"/XObject<<{''.join(f'/I{number} {number} 0 R' for number in self._images)}>>"
            f"/ExtGState<<{''.join(self._opacities.values())}>>>>>>"
        )
        head = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page.encode("ascii"), content]
        return _file(head + self._extra)

    def _add(self, data: bytes) -> int:
        """Adds an object and returns its number."""
        self._extra.append(data)
        return 4 + len(self._extra)

    def _stream(self, data: bytes, entries: str = "") -> bytes:
        packed = zlib.compress(data, self._compression)
        head = f"<<{entries}/Filter/FlateDecode/Length {len(packed)}>>stream\n"
        return head.encode("ascii") + packed + b"\nendstream"

    def _box(self, box: Box) -> None:
        area = f"{_n(box.x)} {_n(box.y)} {_n(box.width)} {_n(box.height)} re"
        if box.fill:
            self._content.append(f"{_color(box.fill)} rg {area} f")
        if box.stroke:
            self._content.append(f"{_color(box.stroke)} RG 1 w {area} S")

    def _curve(self, curve: Curve) -> None:
        start, *rest = [f"{_n(x)} {_n(y)}" for x, y in curve.points]
        path = f"{_color(curve.color)} RG {_n(curve.width)} w {start} m {' '.join(rest)} c S"
        percent = max(1, min(100, round(100 * curve.opacity)))
        if percent < 100:
            self._opacities.setdefault(percent, f"/G{percent}<</CA {percent / 100:g}>>")
            path = f"q /G{percent} gs {path} Q"
        self._content.append(path)

    def _cells(self, cells: Cells) -> None:
        rows, columns = cells.levels.shape
        times = max(1, min(_PIXELS_PER_CELL, int((_IMAGE_PIXELS / (rows * columns)) ** 0.5)))
        pixels = np.repeat(np.repeat(cells.levels, times, axis=0), times, axis=1)
        palette = ramp(self._drawing.theme).tobytes().hex()
        number = self._add(
            self._stream(
                pixels.tobytes(),
                f"/Type/XObject/Subtype/Image/Width {columns * times}/Height {rows * times}/BitsPerComponent 8"
                f"/ColorSpace[/Indexed/DeviceRGB 255<{palette}>]",
            )
        )
        self._images.append(number)
        # The image is the unit square with its top at 1; the page has y downwards.
        self._content.append(
            f"q {_n(cells.width)} 0 0 {_n(-cells.height)} {_n(cells.x)} {_n(cells.y + cells.height)} cm /I{number} Do Q"
        )

    def _text(self, text: Text) -> None:
        runs = shape(text.text)
        length = text.size * sum(run.advance for run in runs)
        pen = {"start": 0.0, "middle": -length / 2, "end": -length}[text.anchor]
        matrix = "0 -1 -1 0" if text.rotated else "1 0 0 -1"
        parts = [f"BT {_color(text.color)} rg"]
        for run in runs:
            font = self._fonts.setdefault(run.font, EmbeddedFont(run.font, f"F{len(self._fonts)}"))
            x, y = (text.x, text.y - pen) if text.rotated else (text.x + pen, text.y)
            parts.append(f"/{font.name} {_n(text.size)} Tf {matrix} {_n(x)} {_n(y)} Tm {_shown(run, font, text.size)}")
            pen += text.size * run.advance
        self._content.append(" ".join([*parts, "ET"]))

    def _font_objects(self) -> str:
        """Adds the objects of all fonts and returns the entries of the page's font dictionary."""
        entries = []
        for font in self._fonts.values():
            program, kind = font.program()
            file = self._add(self._stream(program, kind))
            unicode = self._add(self._stream(font.to_unicode()))
            descriptor = self._add(font.descriptor(file))
            descendant = self._add(font.descendant(descriptor))
            entries.append(f"/{font.name} {self._add(font.composite(descendant, unicode))} 0 R")
        return "".join(entries)


def _shown(run: Run, font: EmbeddedFont, size: float) -> str:
    """Returns the operators that show a run. A number in TJ moves the pen to the left by thousandths of the size."""
    parts: list[str] = []
    row: list[str] = []
    rise = 0.0
    for glyph in run.glyphs:
        if glyph.y != rise:
            parts.append(f"[{''.join(row)}]TJ {_n(size * glyph.y)} Ts")
            row, rise = [], glyph.y
        before, after = -1000 * glyph.x, font.use(glyph) - 1000 * (glyph.advance - glyph.x)
        row.append(f"{_move(before)}<{glyph.number:04x}>{_move(after)}")
    parts.append(f"[{''.join(row)}]TJ" + (" 0 Ts" if rise else ""))
    return " ".join(parts)


def _move(thousandths: float) -> str:
    return f"{_n(thousandths)}" if abs(thousandths) >= 0.5 else ""


def _file(objects: Sequence[bytes]) -> bytes:
    """Returns the objects, numbered from 1, with the header and the table of their places (section 7.5)."""
    out = bytearray(b"%PDF-1.6\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, data in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode("ascii") + data + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode("ascii")
    out += "".join(f"{place:010} 00000 n \n" for place in places).encode("ascii")
    out += f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n".encode("ascii")
    return bytes(out)


def _color(color: str) -> str:
    return " ".join(_n(int(color[i : i + 2], 16) / 255) for i in (1, 3, 5))


def _n(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".") or "0"
