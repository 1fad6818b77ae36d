"""Colours of pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ThemeName = Literal["light", "dark", "print"]

GAMMA = 0.6
"""Exponent between weight and place on the colour scale, as in the explorer."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours `#rrggbb`. `heat` are the colours of the weights 0, about 0.3 and 1; `hues` tell heads apart."""

    background: str
    ink: str
    soft: str
    line: str
    accent: str
    heat: tuple[str, ...]
    hues: tuple[str, ...]


def theme(colors: str, heat: str, hues: str) -> Theme:
    """Returns a theme of colours that are separated by spaces."""
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
    """Returns the colour scale (256, 3): red, green and blue from weight 0 to weight 1."""
    stops = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in theme.heat])
    places = np.linspace(0, 2, 256)
    return np.stack([np.interp(places, (0, 1, 2), stops[:, c]) for c in range(3)], axis=1).round().astype(np.uint8)


def levels(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Returns the place of each weight on the colour scale, 0 to 255. Weights that are not finite are shown as 0."""
    share = np.clip(np.nan_to_num(weights, nan=0.0), 0, 1)
    return np.asarray(np.rint(255 * share**GAMMA), dtype=np.uint8)
