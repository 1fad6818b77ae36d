"""Writes a drawing as SVG. Texts stay texts; the SVG has no scripts, styles or links."""

from __future__ import annotations

import base64
from html import escape

import numpy as np
from numpy.typing import NDArray

from server.inspection.pictures.drawing import Box, Cells, Curve, Drawing, Shape, Text
from server.inspection.pictures.fonts import FAMILIES, right_to_left
from server.inspection.pictures.png import encode
from server.inspection.pictures.themes import Theme, ramp

_VECTOR_CELLS = 40_000
"""Cells above weight 0 in a drawing up to which its heat maps are rectangles; above, they are images."""
_OPPOSITE = {"start": "end", "end": "start", "middle": "middle"}


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
    backwards = right_to_left(text.text)
    anchor = _OPPOSITE[text.anchor] if backwards else text.anchor  # SVG counts it along the direction of the text
    attributes = f'x="{_n(text.x)}" y="{_n(text.y)}" font-size="{_n(text.size)}" fill="{text.color}"'
    if anchor != "start":
        attributes += f' text-anchor="{anchor}"'
    if backwards:
        attributes += ' direction="rtl"'
    if text.rotated:
        attributes += f' transform="rotate(-90 {_n(text.x)} {_n(text.y)})"'
    return f"<text {attributes}>{escape(text.text)}</text>"


def _cells(cells: Cells, theme: Theme, vector: bool) -> str:
    """Writes an image, or one path per colour, in which neighbours of one colour in a row are one rectangle."""
    rows, columns = cells.levels.shape
    colors = ramp(theme)
    place = f"translate({_n(cells.x)} {_n(cells.y)}) scale({cells.width / columns:.6g} {cells.height / rows:.6g})"
    if not vector:
        png = base64.b64encode(encode(colors[cells.levels])).decode()
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


def _equal_runs(levels: NDArray[np.uint8]) -> list[tuple[int, int, int]]:
    """Returns (start, end, level) of the neighbours of one level in a row."""
    cuts = np.flatnonzero(np.diff(levels)) + 1
    starts = [0, *cuts.tolist()]
    return list(zip(starts, [*starts[1:], len(levels)], levels[starts].tolist(), strict=True))


def _hex(color: NDArray[np.uint8]) -> str:
    return "#" + bytes(color.tolist()).hex()


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
