"""Drawings in SVG. Texts stay texts; the SVG has no scripts, styles or links."""

from __future__ import annotations

import base64
import struct
import unicodedata
import zlib
from dataclasses import dataclass, field
from functools import cache, lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

ThemeName = Literal["light", "dark", "print"]

GAMMA = 0.6
"""Exponent between weight and place on the colour scale, as in the explorer."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours `#rrggbb`. `heat` are those of the weights 0, about 0.3 and 1; `hues` tell heads
    apart."""

    background: str
    ink: str
    soft: str
    line: str
    accent: str
    heat: tuple[str, ...]
    hues: tuple[str, ...]


def theme(colors: str, heat: str, hues: str) -> Theme:
    """Returns a theme of colours separated by spaces."""
    background, ink, soft, line, accent = colors.split()
    return Theme(background, ink, soft, line, accent, tuple(heat.split()), tuple(hues.split()))


THEMES: dict[ThemeName, Theme] = {
    "light": theme(
        "#ffffff #1c1d22 #5c6070 #dddfe6 #4338ca",
        "#f4f5fa #8f9be8 #312a8f",
        "#4e79a7 #e8710a #2f9e44 #d6336c #7950f2 #1098ad #a0640f #5c6b7a",
    ),
    "dark": theme(
        "#191b23 #eceef5 #a3a8b8 #2e313d #a5b4fc",
        "#1d2030 #5b63c9 #d7dcff",
        "#7fb0e0 #ff9d4d #6bd17f #f783ac #b197fc #4fd1e0 #e0b060 #a9b7c6",
    ),
    # For black-and-white printing: greys for weights, and hues that differ in lightness.
    "print": theme(
        "#ffffff #000000 #333333 #999999 #000000",
        "#ffffff #999999 #000000",
        "#000000 #d55e00 #0072b2 #cc79a7 #009e73 #e69f00 #56b4e9 #999999",
    ),
}


@cache
def ramp(theme: Theme) -> NDArray[np.uint8]:
    """Returns the colour scale (256, 3) from weight 0 to weight 1, as RGB."""
    stops = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in theme.heat])
    places = np.linspace(0, 2, 256)
    return (
        np.stack([np.interp(places, (0, 1, 2), stops[:, c]) for c in range(3)], axis=1)
        .round()
        .astype(np.uint8)
    )


def levels(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Returns the place of each weight on the colour scale, 0 to 255; 0 for what is not finite."""
    share = np.clip(np.nan_to_num(weights, nan=0.0), 0, 1)
    return np.asarray(np.rint(255 * share**GAMMA), dtype=np.uint8)


_JOINED = 0.75
"""Width of a joined Arabic letter relative to the same letter alone, on average."""
_ZERO_WIDTH = ("Mn", "Me", "Cf")
_OTHER_FONT = 0.6
"""Assumed width of a character outside the font, in font sizes; wide ones have 1."""


def width(text: str, size: float) -> float:
    """Returns the width of a line of text."""
    return size * sum(map(_advance, text))


def right_to_left(text: str) -> bool:
    """Returns whether the first letter is of a script written from right to left."""
    return next(
        (kind != "L" for kind in map(unicodedata.bidirectional, text) if kind in ("L", "R", "AL")),
        False,
    )


@lru_cache(maxsize=10_000)
def _advance(character: str) -> float:
    """Returns the width of a character in font sizes."""
    if unicodedata.category(character) in _ZERO_WIDTH:
        return 0.0
    font = _font()
    if number := font.glyphindex(character):
        joined = _JOINED if unicodedata.bidirectional(character) == "AL" else 1.0
        return float(joined * font.advwidths[number].width / font.info.layout.unitsperem)
    return 1.0 if unicodedata.east_asian_width(character) in ("W", "F") else _OTHER_FONT


def font_folder() -> Path:
    return Path(str(files("ziafont"))) / "fonts"


@cache
def _font() -> Any:
    from ziafont.font import Font  # imported for the first picture

    return Font(str(font_folder() / "DejaVuSans.ttf"))


FAMILIES = "DejaVu Sans, Noto Sans, Noto Sans CJK SC, WenQuanYi Micro Hei, FreeSans, sans-serif"
_VECTOR_CELLS = 40_000
"""Most cells above weight 0 for which heat maps are rectangles; beyond, they are images."""
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE = 3
"""Colour type of a PNG with a palette."""
Point = tuple[float, float]
Points = tuple[Point, Point, Point, Point]


HeatMap = tuple[float, float, float, float, NDArray[np.uint8]]
"""Place (x, y, width, height) and `levels` (rows, columns)."""


@dataclass(slots=True)
class Drawing:
    """An SVG with shapes in pixels, y downwards, in the order of painting. The height may be set
    after the shapes."""

    width: float
    height: float
    theme: Theme
    parts: list[str | HeatMap] = field(default_factory=list)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "none",
        stroke: str | None = None,
    ) -> None:
        """Adds a rectangle with an optional fill and outline, as colours `#rrggbb`."""
        line = f' stroke="{stroke}"' if stroke else ""
        place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        self.parts.append(f'<rect {place} fill="{fill}"{line}/>')

    def heat_map(
        self, x: float, y: float, width: float, height: float, levels: NDArray[np.uint8]
    ) -> None:
        """Adds a heat map of `levels` (rows, columns) with an outline."""
        self.parts.append((x, y, width, height, levels))
        self.box(x, y, width, height, stroke=self.theme.line)

    def curve(self, points: Points, width: float, color: str, opacity: float = 1.0) -> None:
        """Adds a cubic Bézier curve through four points (x, y), as a line of this width."""
        (a, b), *rest = points
        path = f"M{_n(a)} {_n(b)}C" + " ".join(f"{_n(x)} {_n(y)}" for x, y in rest)
        faint = f' stroke-opacity="{_n(opacity)}"' if opacity < 1 else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{_n(width)}"{faint}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        color: str,
        anchor: str = "start",
        rotated: bool = False,
    ) -> None:
        """Adds a line of text with its `anchor` ("start", "middle" or "end") at (x, y) on the
        baseline. A rotated text reads upwards."""
        # Unicode's marks of direction, which every program that paints SVG understands. Many ignore
        # the attribute `direction`.
        content = f"\u202b{text}\u202c" if right_to_left(text) else text
        attributes = f'x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{color}"'
        if anchor != "start":
            attributes += f' text-anchor="{anchor}"'
        if rotated:
            attributes += f' transform="rotate(-90 {_n(x)} {_n(y)})"'
        self.parts.append(f"<text {attributes}>{escape(content)}</text>")


def write_svg(drawing: Drawing, width: float) -> bytes:
    """Returns the SVG, `width` pixels wide."""
    box = f"{_n(drawing.width)} {_n(drawing.height)}"
    head = (
        '<?xml version="1.0" encoding="utf-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" '
        f'width="{_n(width)}" '
        f'height="{_n(drawing.height * width / drawing.width)}" viewBox="0 0 {box}" '
        f'font-family="{FAMILIES}">'
    )
    paper = Drawing(drawing.width, drawing.height, drawing.theme)
    paper.box(0, 0, drawing.width, drawing.height, drawing.theme.background)
    parts = [*paper.parts, *drawing.parts]
    vector = (
        sum(int(np.count_nonzero(part[-1])) for part in parts if not isinstance(part, str))
        <= _VECTOR_CELLS
    )
    shapes = [
        part if isinstance(part, str) else _heat_map(part, ramp(drawing.theme), vector)
        for part in parts
    ]
    return "\n".join([head, *shapes, "</svg>"]).encode("utf-8", "replace")


def _heat_map(heat_map: HeatMap, colors: NDArray[np.uint8], vector: bool) -> str:
    """Writes an image, or one path per colour, in which equal neighbours are one rectangle."""
    x, y, width, height, cells = heat_map
    rows, columns = cells.shape
    place = f"translate({_n(x)} {_n(y)}) scale({width / columns:.6g} {height / rows:.6g})"
    if not vector:
        png = base64.b64encode(_png(cells, colors)).decode()
        # A style attribute is refused by the policy of the response, so this is the older
        # attribute.
        return (
            f'<image transform="{place}" width="{columns}" height="{rows}" '
            'preserveAspectRatio="none" '
            f'image-rendering="optimizeSpeed" href="data:image/png;base64,{png}"/>'
        )
    paths: dict[int, list[str]] = {}
    for row, levels in enumerate(cells):
        for start, end, level in _equal_runs(levels):
            if level:
                paths.setdefault(level, []).append(f"M{start} {row}h{end - start}v1h{start - end}z")
    lowest = f'<path fill="{_hex(colors[0])}" d="M0 0h{columns}v{rows}h-{columns}z"/>'
    drawn = [
        f'<path fill="{_hex(colors[level])}" d="{"".join(parts)}"/>'
        for level, parts in sorted(paths.items())
    ]
    return f'<g transform="{place}" shape-rendering="crispEdges">{lowest}{"".join(drawn)}</g>'


def _png(levels: NDArray[np.uint8], colors: NDArray[np.uint8]) -> bytes:
    """Returns an image whose pixels are places on the colour scale."""
    rows, columns = levels.shape
    # each row begins with the number of its filter
    unfiltered = np.pad(levels, ((0, 0), (1, 0))).tobytes()
    head = struct.pack(">IIBBBBB", columns, rows, 8, _PALETTE, 0, 0, 0)
    chunks = (
        (b"IHDR", head),
        (b"PLTE", colors.tobytes()),
        (b"IDAT", zlib.compress(unfiltered)),
        (b"IEND", b""),
    )
    return _PNG_SIGNATURE + b"".join(png_chunk(kind, data) for kind, data in chunks)


def png_chunk(kind: bytes, data: bytes) -> bytes:
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
