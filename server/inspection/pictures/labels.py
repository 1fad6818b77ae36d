"""Titles, names of tokens, and the scale, which all layouts share."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

import numpy as np

from server.inspection.attention_view import MapView
from server.inspection.pictures.svg import Drawing, levels, right_to_left, width

MARGIN = 14.0
TITLE = 15.0
SMALL = 10.0
"""Font sizes of titles and of the scale."""
LABEL_LIMIT = 32
_TITLE_LINES = 4
_SMALLEST = 6.5
"""Least distance of two labels; those between are left out."""


def printable(text: str, limit: int = LABEL_LIMIT) -> str:
    """Returns a text without control characters, shortened in the middle to about `limit`."""
    shown = "".join(c if unicodedata.category(c)[0] != "C" else "\u00b7" for c in text)
    return (
        shown
        if len(shown) <= limit
        else shown[: limit * 2 // 3] + "\u2026" + shown[1 - limit // 3 :]
    )


def fitted(text: str, room: float, size: float, least: float) -> tuple[str, float]:
    """Returns a text and the font size at which it fits into the room. At the `least` size it is
    shortened."""
    size = max(least, min(size, size * room / max(1.0, width(text, size))))
    limit = len(text)
    while limit > 1 and width(printable(text, limit), size) > room:
        limit -= 1
    return printable(text, limit), size


def add_title(drawing: Drawing, lines: Sequence[str]) -> float:
    """Writes a title at the top, in lines of the drawing's width, and returns its lower edge."""
    y = MARGIN
    room = drawing.width - 2 * MARGIN
    for number, line in enumerate(lines):
        for part in wrapped(printable(line, 1000), TITLE, room):
            y += TITLE * 1.35
            color = drawing.theme.ink if number == 0 else drawing.theme.soft
            x, anchor = (
                (drawing.width - MARGIN, "end") if right_to_left(line) else (MARGIN, "start")
            )
            drawing.text(x, y - TITLE * 0.3, part, TITLE, color, anchor)
    return y


def wrapped(text: str, size: float, room: float) -> list[str]:
    """Breaks a text into at most `_TITLE_LINES` lines, at spaces where there are any. An ellipsis
    stands for the rest."""
    lines = [""]
    for word in text.replace("\n", " ").split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if width(longer, size) <= room:
            lines[-1] = longer
            continue
        lines.append("")
        for character in word:
            if lines[-1] and width(lines[-1] + character, size) > room:
                lines.append("")
            lines[-1] += character
    lines = [line for line in lines if line]
    if len(lines) > _TITLE_LINES:
        last = lines[_TITLE_LINES - 1]
        while last and width(last + "\u2026", size) > room:
            last = last[:-1]
        lines[_TITLE_LINES - 1 :] = [last + "\u2026"]
    return lines


def shown_labels(labels: Sequence[str], pitch: float, limit: int = LABEL_LIMIT) -> dict[int, str]:
    """Returns the labels that have room at this distance (`pitch`), by their number."""
    step = max(1, math.ceil(_SMALLEST / pitch))
    return {number: printable(labels[number], limit) for number in range(0, len(labels), step)}


def label_size(pitch: float, largest: float = 12.0) -> float:
    return max(_SMALLEST - 0.5, min(largest, pitch * 0.72))


def add_labels(
    drawing: Drawing,
    labels: dict[int, str],
    x: float,
    y: float,
    pitch: float,
    size: float,
    *,
    above: bool,
    anchor: str = "end",
) -> None:
    """Names the rows of a map that begins at (x, y), or (`above`) its columns, as rotated text."""
    for number, label in labels.items():
        place = (number + 0.5) * pitch + 0.35 * size
        where = (x + place, y) if above else (x, y + place)
        drawing.text(
            *where, label, size, drawing.theme.ink, "start" if above else anchor, rotated=above
        )


def widest(labels: dict[int, str], size: float) -> float:
    return max((width(label, size) for label in labels.values()), default=0.0)


def add_scale(drawing: Drawing, x: float, y: float, caption: str, length: float = 180.0) -> float:
    """Draws the linear scale of the weights and returns the lower edge of the drawing."""
    theme = drawing.theme
    drawing.heat_map(x, y, length, 9, levels(np.linspace(0, 1, 60, dtype=np.float32))[None])
    for part in range(5):
        drawing.text(
            x + part * length / 4,
            y + 20,
            f"{part / 4:.2f}",
            SMALL,
            theme.soft,
            "middle" if part else "start",
        )
    drawing.text(x + length + 18, y + 9, caption, SMALL, theme.soft)
    return y + 24 + MARGIN


def map_name(view: MapView, layer: int, head: int) -> str:
    """Returns the name of a map, such as "cross, layer 0, head 2"."""
    return f"{view.kind}, layer {view.layers[layer]}, {head_name(view.heads[head])}"


def head_name(head: int | str) -> str:
    """Returns "head 2", "mean of heads", "largest of heads", "sum of heads" or "rollout"."""
    names = {"mean": "mean of heads", "max": "largest of heads", "sum": "sum of heads"}
    return f"head {head}" if isinstance(head, int) else names.get(head, head)
