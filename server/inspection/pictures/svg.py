"""The shapes of a drawing, and the SVG of it. Texts stay texts; the SVG has no scripts, styles or links."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass, field
from html import escape
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from server.inspection.pictures.text_width import right_to_left
from server.inspection.pictures.themes import Theme, ramp

FAMILIES = "DejaVu Sans, Noto Sans, Noto Sans CJK SC, WenQuanYi Micro Hei, FreeSans, sans-serif"
_VECTOR_CELLS = 40_000
"""Cells above weight 0 in a drawing up to which its heat maps are rectangles; above, they are images."""
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE = 3
"""Colour type of a PNG whose pixels are numbers of colours in a palette."""
Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]
Points = tuple[Point, Point, Point, Point]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with an optional fill and outline, as colours `#rrggbb`."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None


@dataclass(frozen=True, slots=True)
class Cells:
    """A heat map: `levels` (rows, columns), uint8, are places on the colour scale of the theme."""

    x: float
    y: float
    width: float
    height: float
    levels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Curve:
    """A cubic Bézier curve through four points (x, y), as a line of this width."""

    points: Points
    width: float
    color: str
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text. (x, y) is on the baseline. A rotated text reads upwards."""

    x: float
    y: float
    text: str
    size: float
    color: str
    anchor: Anchor = "start"
    rotated: bool = False


Shape = Box | Cells | Curve | Text


@dataclass(slots=True)
class Drawing:
    """Shapes in pixels, y downwards, in the order in which they are painted on the background of the theme. The height may
    be set after the shapes."""

    width: float
    height: float
    theme: Theme
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes.extend(shapes)


def write_svg(drawing: Drawing, width: float) -> bytes:
    """Returns the SVG, `width` pixels wide."""
    height = drawing.height * width / drawing.width
    box = f"0 0 {_n(drawing.width)} {_n(drawing.height)}"
    head = (
        f'<?xml version="1.0" encoding="utf-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" '
        f'height="{_n(height)}" viewBox="{box}" font-family="{FAMILIES}">'
    )
    paper = Box(0, 0, drawing.width, drawing.height, drawing.theme.background)
    colored = sum(int(np.count_nonzero(shape.levels)) for shape in drawing.shapes if isinstance(shape, Cells))
    vector = colored <= _VECTOR_CELLS
    parts = [head, *(_shape(shape, drawing.theme, vector) for shape in (paper, *drawing.shapes)), "</svg>"]
    return "\n".join(parts).encode("utf-8", "replace")


def _shape(shape: Shape, theme: Theme, vector: bool) -> str:
    match shape:
        case Box(x, y, width, height, fill, stroke):
            line = f' stroke="{stroke}"' if stroke else ""
            return f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="{fill or "none"}"{line}/>'
        case Curve(points, width, color, opacity):
            (a, b), *rest = points
            path = f"M{_n(a)} {_n(b)}C" + " ".join(f"{_n(x)} {_n(y)}" for x, y in rest)
            faint = f' stroke-opacity="{_n(opacity)}"' if opacity < 1 else ""
            return f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{_n(width)}"{faint}/>'
        case Text():
            return _text(shape)
        case Cells():
            return _cells(shape, theme, vector)


def _text(text: Text) -> str:
    # Unicode's marks of direction, which every program that paints SVG understands. Many ignore the attribute `direction`.
    content = f"\u202b{text.text}\u202c" if right_to_left(text.text) else text.text
    attributes = f'x="{_n(text.x)}" y="{_n(text.y)}" font-size="{_n(text.size)}" fill="{text.color}"'
    if text.anchor != "start":
        attributes += f' text-anchor="{text.anchor}"'
    if text.rotated:
        attributes += f' transform="rotate(-90 {_n(text.x)} {_n(text.y)})"'
    return f"<text {attributes}>{escape(content)}</text>"


def _cells(cells: Cells, theme: Theme, vector: bool) -> str:
    """Writes an image, or one path per colour, in which neighbours of one colour in a row are one rectangle."""
    rows, columns = cells.levels.shape
    colors = ramp(theme)
    place = f"translate({_n(cells.x)} {_n(cells.y)}) scale({cells.width / columns:.6g} {cells.height / rows:.6g})"
    if not vector:
        png = base64.b64encode(_png(cells.levels, colors)).decode()
        # A style attribute is refused by the policy of the response, so this is the older attribute.
        return (
            f'<image transform="{place}" width="{columns}" height="{rows}" preserveAspectRatio="none" '
            f'image-rendering="optimizeSpeed" href="data:image/png;base64,{png}"/>'
        )
    paths: dict[int, list[str]] = {}
    for row, levels in enumerate(cells.levels):
        for start, end, level in _equal_runs(levels):
            if level:
                paths.setdefault(level, []).append(f"M{start} {row}h{end - start}v1h{start - end}z")
    lowest = f'<path fill="{_hex(colors[0])}" d="M0 0h{columns}v{rows}h-{columns}z"/>'
    drawn = [f'<path fill="{_hex(colors[level])}" d="{"".join(parts)}"/>' for level, parts in sorted(paths.items())]
    return f'<g transform="{place}" shape-rendering="crispEdges">{lowest}{"".join(drawn)}</g>'


def _png(levels: NDArray[np.uint8], colors: NDArray[np.uint8]) -> bytes:
    """Returns an image whose pixels are places on the colour scale."""
    rows, columns = levels.shape
    unfiltered = np.pad(levels, ((0, 0), (1, 0))).tobytes()  # each row begins with the number of its filter
    head = struct.pack(">IIBBBBB", columns, rows, 8, _PALETTE, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", colors.tobytes()), (b"IDAT", zlib.compress(unfiltered)), (b"IEND", b""))
    return _PNG_SIGNATURE + b"".join(png_chunk(kind, data) for kind, data in chunks)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    """Returns a part of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _equal_runs(levels: NDArray[np.uint8]) -> list[tuple[int, int, int]]:
    """Returns (start, end, level) of the neighbours of one level in a row."""
    cuts = np.flatnonzero(np.diff(levels)) + 1
    starts = [0, *cuts.tolist()]
    return list(zip(starts, [*starts[1:], len(levels)], levels[starts].tolist(), strict=True))


def _hex(color: NDArray[np.uint8]) -> str:
    return "#" + bytes(color.tolist()).hex()


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
