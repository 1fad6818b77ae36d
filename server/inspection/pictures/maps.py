"""Heat maps: one map, or a grid of layers and heads. Rows are queries, columns are keys."""

from __future__ import annotations

from collections.abc import Sequence

from server.inspection.attention_view import MapView
from server.inspection.pictures.labels import (
    MARGIN,
    SMALL,
    add_labels,
    add_scale,
    add_title,
    head_name,
    label_size,
    map_name,
    shown_labels,
    widest,
)
from server.inspection.pictures.svg import Drawing, Theme, levels, width

KEYS = {"cross": "source", "encoder": "source", "decoder": "read so far"}
QUERIES = {"cross": "translation", "encoder": "source", "decoder": "translation"}
"""Names of the columns and rows of each kind of map."""
_LARGEST_CELL, _SMALLEST_CELL, _SIDE = 22.0, 3.5, 1400.0
_GRID_MAP, _GRID_GAP, _GRID_NAME = 132.0, 14.0, 18.0
_GRID_LABEL = 9.0
_LEAST_WIDTH = 320.0


def draw_map(view: MapView, theme: Theme, title: Sequence[str], caption: str) -> Drawing:
    """Returns a picture of one map with all its labels."""
    queries, keys = view.weights.shape[-2:]
    cell = max(_SMALLEST_CELL, min(_LARGEST_CELL, _SIDE / max(queries, keys)))
    rows, columns = shown_labels(view.queries, cell), shown_labels(view.keys, cell)
    size = label_size(cell)
    left = MARGIN + SMALL + 10 + widest(rows, size) + 6
    body = keys * cell
    # Room for the scale with its caption too.
    total = max(_LEAST_WIDTH, left + max(body, 215 + width(caption, SMALL)) + MARGIN)
    drawing = Drawing(total, 0, theme)
    y = add_title(drawing, title)
    top = y + SMALL * 2 + 14 + widest(columns, size) + 6
    drawing.text(MARGIN, y + 14, map_name(view, 0, 0), SMALL, theme.soft)
    drawing.text(left + body / 2, y + 30, KEYS[view.kind], SMALL, theme.soft, "middle")
    drawing.text(
        MARGIN + SMALL,
        top + queries * cell / 2,
        QUERIES[view.kind],
        SMALL,
        theme.soft,
        "middle",
        rotated=True,
    )
    add_labels(drawing, rows, left - 6, top, cell, size, above=False)
    add_labels(drawing, columns, left, top - 6, cell, size, above=True)
    drawing.heat_map(left, top, body, queries * cell, levels(view.weights[0, 0]))
    drawing.height = add_scale(drawing, left, top + queries * cell + 14, caption)
    return drawing


def draw_grid(
    views: Sequence[MapView], theme: Theme, title: Sequence[str], caption: str
) -> Drawing:
    """Returns a picture of several maps: layers downwards, heads to the right, a block for each
    kind. Queries are named beside each row of maps, keys above each block."""
    columns = max(len(view.heads) for view in views)
    names = [
        [shown_labels(side, _GRID_MAP / len(side), 14) for side in (view.queries, view.keys)]
        for view in views
    ]
    sizes = [
        tuple(label_size(_GRID_MAP / count, _GRID_LABEL) for count in view.weights.shape[-2:])
        for view in views
    ]
    left = (
        MARGIN
        + 6
        + max(widest(rows, size) for (rows, _), (size, _) in zip(names, sizes, strict=True))
    )
    tops = [26 + widest(keys, size) for (_, keys), (_, size) in zip(names, sizes, strict=True)]
    row = _GRID_MAP + _GRID_NAME
    total = max(
        _LEAST_WIDTH,
        left + columns * (_GRID_MAP + _GRID_GAP) + MARGIN,
        left + 230 + width(caption, SMALL),
    )
    drawing = Drawing(total, 0, theme)
    y = add_title(drawing, title)
    for view, top, (rows, keys), (row_size, key_size) in zip(
        views, tops, names, sizes, strict=True
    ):
        about = f"{view.kind}: rows {QUERIES[view.kind]}, columns {KEYS[view.kind]}"
        drawing.text(MARGIN, y + 16, about, SMALL, theme.soft)
        y += top
        for head in range(len(view.heads)):
            x = left + head * (_GRID_MAP + _GRID_GAP)
            add_labels(drawing, keys, x, y - 4, _GRID_MAP / len(view.keys), key_size, above=True)
        for layer in range(len(view.layers)):
            _add_row(drawing, view, layer, rows, row_size, left, y)
            y += row
    drawing.height = add_scale(drawing, left, y + 16, caption)
    return drawing


def _add_row(
    drawing: Drawing,
    view: MapView,
    layer: int,
    rows: dict[int, str],
    size: float,
    left: float,
    y: float,
) -> None:
    theme, top = drawing.theme, y + _GRID_NAME
    add_labels(drawing, rows, left - 4, top, _GRID_MAP / len(view.queries), size, above=False)
    for number, head in enumerate(view.heads):
        x = left + number * (_GRID_MAP + _GRID_GAP)
        name = f"layer {view.layers[layer]}, {head_name(head)}"
        drawing.text(x, top - 4, name, SMALL - 1, theme.soft)
        drawing.heat_map(x, top, _GRID_MAP, _GRID_MAP, levels(view.weights[layer, number]))
