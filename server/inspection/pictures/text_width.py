"""The width of text in DejaVu Sans, which is installed with the package ziafont."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

_JOINED = 0.75
"""Width of a joined Arabic letter relative to the same letter alone, on average."""
_ZERO_WIDTH = ("Mn", "Me", "Cf")
_OTHER_FONT = 0.6
"""Assumed width of a character that the font does not have, in font sizes. Chinese, Japanese and Korean ones have 1."""


def width(text: str, size: float) -> float:
    """Returns the width of a line of text."""
    return size * sum(map(_advance, text))


def right_to_left(text: str) -> bool:
    """Returns whether the first letter of a text is of a script that is written from right to left."""
    return next((kind != "L" for kind in map(unicodedata.bidirectional, text) if kind in ("L", "R", "AL")), False)


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
    """Returns the folder of the font."""
    return Path(str(files("ziafont"))) / "fonts"


@cache
def _font() -> Any:
    from ziafont.font import Font  # imported for the first picture

    return Font(str(font_folder() / "DejaVuSans.ttf"))
