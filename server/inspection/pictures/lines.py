"""Lines from queries to keys: the attention of several heads in one picture, or a word alignment in
columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from server.inspection.pictures.labels import (
    MARGIN,
    SMALL,
    add_labels,
    add_title,
    label_size,
    printable,
    shown_labels,
    widest,
)
from server.inspection.pictures.svg import Drawing, Theme, width

HEADS_LIMIT = 8
"""Number of heads that colours tell apart."""
LINES_LIMIT = 600
"""The faintest lines beyond this number are left out."""
_LARGEST_ROW, _SMALLEST_ROW, _SIDE = 22.0, 6.0, 1600.0
_FAINT = 0.03
"""Weight below which there is no line."""
_THICKEST = 9.0
_GAP = 260.0


def draw_lines(
    weights: NDArray[np.float32],
    names: Sequence[str],
    sides: Sequence[Sequence[str]],
    captions: Sequence[str],
    theme: Theme,
    title: Sequence[str],
) -> Drawing:
    """Returns a picture of `weights` (heads, left, right) with the words of two `sides` below their
    `captions`, and a line for each weight in the colour of its head. Thickness and opacity show the
    weight; the lines of several heads, which have `names`, lie side by side."""
    rows = max(map(len, sides))
    row = max(_SMALLEST_ROW, min(_LARGEST_ROW, _SIDE / rows))
    left, right = (shown_labels(side, row) for side in sides)
    size = label_size(row)
    start = MARGIN + max(widest(left, size), width(captions[0], SMALL)) + 8
    legend = max(width(name, SMALL) for name in names) + 40
    total = max(
        start + _GAP + 8 + max(widest(right, size), width(captions[1], SMALL)) + MARGIN,
        MARGIN * 2 + legend,
    )
    colors = theme.hues if len(names) > 1 else (theme.accent,)
    drawing = Drawing(total, 0, theme)
    y = add_title(drawing, title)
    for number, name in enumerate(names):
        y += 18
        color = colors[number % len(colors)]
        start_of_line, end_of_line = (MARGIN, y - 3), (MARGIN + 24, y - 3)
        drawing.curve((start_of_line, start_of_line, end_of_line, end_of_line), 5, color)
        drawing.text(MARGIN + 32, y, name, SMALL, theme.soft)
    top = y + 28
    drawing.height = top + rows * row + MARGIN
    drawing.text(start - 8, y + 18, printable(captions[0]), SMALL, theme.soft, "end")
    drawing.text(start + _GAP + 8, y + 18, printable(captions[1]), SMALL, theme.soft)
    _add_curves(drawing, weights, (start, top), row, colors)
    add_labels(drawing, left, start - 8, top, row, size, above=False)
    add_labels(drawing, right, start + _GAP + 8, top, row, size, above=False, anchor="start")
    return drawing


def _add_curves(
    drawing: Drawing,
    weights: NDArray[np.float32],
    origin: tuple[float, float],
    row: float,
    colors: Sequence[str],
) -> None:
    colored = weights.shape[0]
    thickest = min(_THICKEST, row * 0.55) * (1 if colored == 1 else 1 / min(colored, 4) + 0.25)
    least = max(_FAINT, _nth_largest(weights, LINES_LIMIT))
    shown = np.argwhere((weights >= least).any(axis=0))
    x, y = origin
    for query, key in shown.tolist():
        present = [
            (head, weight)
            for head, weight in enumerate(weights[:, query, key].tolist())
            if weight >= least
        ]
        offset = -thickest * sum(weight for _, weight in present) / 2
        for head, weight in present:
            thick = thickest * weight
            start, end = (y + (number + 0.5) * row + offset + thick / 2 for number in (query, key))
            points = (x, start), (x + 0.45 * _GAP, start), (x + 0.55 * _GAP, end), (x + _GAP, end)
            drawing.curve(
                points, max(0.6, thick), colors[head % len(colors)], min(1.0, 0.15 + weight)
            )
            offset += thick


def _nth_largest(weights: NDArray[np.float32], count: int) -> float:
    """Returns the weight of which `count` are at least as large, or 0 if there are fewer
    weights."""
    return 0.0 if weights.size <= count else float(np.partition(weights, -count, axis=None)[-count])
