"""A drawing: shapes and texts in pixels, y downwards. The layouts fill it; `svg` and `pdf` write it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from server.inspection.pictures.themes import Theme

Anchor = Literal["start", "middle", "end"]


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

    points: tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]
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
    """Shapes in the order in which they are painted, on the background of the theme."""

    width: float
    height: float
    theme: Theme
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes.extend(shapes)
