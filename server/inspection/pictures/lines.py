"""Lines between words: the attention of several heads, a word alignment with ribbons, and the card
for sharing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.inspection.pictures.labels import (
    MARGIN,
    SMALL,
    add_labels,
    add_title,
    fitted,
    label_size,
    printable,
    shown_labels,
    widest,
)
from server.inspection.pictures.svg import Drawing, Theme, right_to_left, width

HEADS_LIMIT = 8
"""Number of heads that colours tell apart."""
LINES_LIMIT = 600
"""The faintest lines beyond this number are left out."""
_LARGEST_ROW, _SMALLEST_ROW, _SIDE = 22.0, 6.0, 1600.0
_FAINT = 0.03
"""Least weight of a line."""
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
    """Returns a picture of `weights` (heads, left, right): the words of two `sides` below their
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
    """Returns the weight of rank `count`, or 0 if there are fewer weights."""
    return 0.0 if weights.size <= count else float(np.partition(weights, -count, axis=None)[-count])


CARD = (1200.0, 630.0)
"""Size of the picture that social networks show beside a link."""
_SIZE, _LONGEST = 18.0, 1000.0
_SPACE, _JOINED = 0.5, 0.14
"""Distance of words, and of words without a space between them, in font sizes."""
_RIBBON = 0.42
"""Width of a ribbon of weight 1, in font sizes."""


@dataclass(frozen=True, slots=True)
class Line:
    """The words of a sentence. `joined` are the numbers of words without a space before them."""

    words: tuple[str, ...]
    joined: frozenset[int] = frozenset()

    def length(self, size: float) -> float:
        return sum(
            width(printable(word), size) + self.gap(number, size)
            for number, word in enumerate(self.words)
        )

    def gap(self, number: int, size: float) -> float:
        return 0.0 if number == 0 else size * (_JOINED if number in self.joined else _SPACE)


@dataclass(frozen=True, slots=True)
class LinkedSentences:
    """A sentence, its translation, and links (source word, target word, weight 0 to 1). The links
    of the target word `chosen` stand out."""

    source: Line
    target: Line
    links: tuple[tuple[int, int, float], ...]
    chosen: int | None = None


def fits_on_lines(pair: LinkedSentences) -> bool:
    """Returns whether each sentence fits on one line of an alignment."""
    return max(pair.source.length(_SIZE), pair.target.length(_SIZE)) <= _LONGEST


def draw_alignment(
    pair: LinkedSentences, theme: Theme, title: Sequence[str], caption: str
) -> Drawing:
    """Returns a picture of the source above its translation, linked by ribbons. Each must fit on a
    line."""
    length = max(pair.source.length(_SIZE), pair.target.length(_SIZE))
    total = max(320.0, length + 2 * MARGIN, width(caption, SMALL) + 2 * MARGIN)
    drawing = Drawing(total, 0, theme)
    top = add_title(drawing, title) + 30
    drawing.height = top + 210 + MARGIN
    _add_pair(drawing, pair, _SIZE, total / 2, (top + 8, top + 160))
    drawing.text(MARGIN, top + 205, caption, SMALL, theme.soft)
    return drawing


def draw_card(
    pair: LinkedSentences, theme: Theme, languages: str, notes: Sequence[str], title: str | None
) -> Drawing:
    """Returns the card: two sentences with ribbons, the languages or a title, notes at the bottom.
    Words at the end of a long sentence are left out."""
    drawing = Drawing(*CARD, theme)
    room = CARD[0] - 120
    size = max(
        20.0,
        min(
            46.0,
            *(46.0 * room / max(1.0, line.length(46.0)) for line in (pair.source, pair.target)),
        ),
    )
    shown = _shortened(pair, size, room)
    drawing.box(0, 0, CARD[0], 10, theme.accent)
    drawing.text(60, 82, *fitted(languages if title is None else title, room, 26, 16), theme.soft)
    _add_pair(drawing, shown, size, CARD[0] / 2, (215, 455))
    drawing.text(60, 585, "Attentive", 26, theme.accent)
    about = fitted(" \u00b7 ".join(notes), room - width("Attentive", 26) - 30, 20, 12)
    drawing.text(CARD[0] - 60, 585, *about, theme.soft, "end")
    return drawing


def _add_pair(
    drawing: Drawing, pair: LinkedSentences, size: float, middle: float, lines: tuple[float, float]
) -> None:
    """Adds both sentences with their baselines at `lines`, and the ribbons between them."""
    theme = drawing.theme
    upper, lower = lines
    source, target = _centres(pair.source, size, middle), _centres(pair.target, size, middle)
    start, end = upper + 0.45 * size, lower - 1.05 * size
    third = (end - start) / 2
    for i, j, weight in sorted(pair.links, key=lambda link: link[1] == pair.chosen):
        stands_out = pair.chosen is None or pair.chosen == j
        a, b = source[i], target[j]
        drawing.curve(
            ((a, start), (a, start + third), (b, end - third), (b, end)),
            max(1.0, size * _RIBBON * weight),
            theme.accent if stands_out else theme.soft,
            (0.25 + 0.6 * weight) if stands_out else 0.2,
        )
    linked = {i for i, j, _ in pair.links if j == pair.chosen}
    for line, places, y, marked in (
        (pair.source, source, upper, linked),
        (pair.target, target, lower, {pair.chosen}),
    ):
        for number, (word, x) in enumerate(zip(line.words, places, strict=True)):
            strong = pair.chosen is None or number in marked
            drawing.text(x, y, printable(word), size, theme.ink if strong else theme.soft, "middle")


def _shortened(pair: LinkedSentences, size: float, room: float) -> LinkedSentences:

    def fitting(line: Line) -> Line:
        shown, count = line, len(line.words)
        while count > 1 and shown.length(size) > room:
            count -= 1
            shown = Line((*line.words[:count], "\u2026"), line.joined)
        return shown

    source, target = fitting(pair.source), fitting(pair.target)
    sources, targets = (
        len(whole.words) if shown is whole else len(shown.words) - 1
        for shown, whole in ((source, pair.source), (target, pair.target))
    )
    links = tuple(link for link in pair.links if link[0] < sources and link[1] < targets)
    return LinkedSentences(source, target, links, pair.chosen)


def _centres(line: Line, size: float, middle: float) -> list[float]:
    """Returns the centre of each word on a centred line, which may run from right to left."""
    at = -line.length(size) / 2
    places = []
    for number, word in enumerate(line.words):
        at += line.gap(number, size)
        length = width(printable(word), size)
        places.append(at + length / 2)
        at += length
    sign = -1 if right_to_left(" ".join(line.words)) else 1
    return [middle + sign * place for place in places]
