"""Attention maps as labelled heat maps in SVG or PNG. Matplotlib is imported at the first picture."""

from __future__ import annotations

import io
import math
import threading
import unicodedata
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from server.errors import InvalidRequest
from server.inspection.attention_view import MapView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure

Format = Literal["svg", "png"]

MAPS_LIMIT = 144
CELLS_LIMIT = 2_000_000
"""Bounds of one picture: number of maps, and number of weights in all maps together."""
DPI = 150
GAMMA = 0.6
"""Exponent between weight and place on the colour scale, as in the explorer."""
_VECTOR_CELLS = 2_500
"""An SVG draws each weight as a shape up to this number, and embeds an image above it."""
_FONTS = ["DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew"]
_draw_lock = threading.Lock()  # matplotlib's font cache and mathtext are not thread-safe


def render_heatmap(maps: list[MapView], format: Format, title: str) -> bytes:
    """Returns a picture of one heat map, or of a grid for several layers or heads. Rows are queries, columns are keys,
    colour is the weight.

    Raises InvalidRequest for more maps or weights than the bounds allow. Takes up to a second: call it in a thread.
    """
    count = sum(len(view.layers) * len(view.heads) for view in maps)
    if count > MAPS_LIMIT:
        raise InvalidRequest(f"A picture shows at most {MAPS_LIMIT} maps, not {count}; choose a kind, layer or head.")
    if (cells := sum(view.weights.size for view in maps)) > CELLS_LIMIT:
        raise InvalidRequest(f"A picture shows at most {CELLS_LIMIT:,} weights, not {cells:,}; choose a layer or head.")
    with _draw_lock:
        return _draw(maps, format, title)


def _draw(maps: list[MapView], format: Format, title: str) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Labels stay text in an SVG, so that the viewer chooses fonts and writing direction for every script.
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "attentive",
        "font.family": _fonts(),
        "text.parse_math": False,
    }
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # such a glyph is drawn as a box
        single = len(maps) == 1 and maps[0].weights.shape[:2] == (1, 1)
        figure = Figure(layout="constrained" if single else None)
        heading = figure.suptitle(_label(title, 160), fontsize=9, x=0.01, ha="left", wrap=True)
        if single:
            _draw_single(figure, maps[0])
        else:
            _draw_grid(figure, maps)
            heading.set_y(1 - 0.1 / figure.get_figheight())
        stream = io.BytesIO()
        metadata = {"Date": None} if format == "svg" else {"Software": "Attentive"}
        figure.savefig(stream, format=format, dpi=DPI, metadata=metadata)
        return stream.getvalue()


def _draw_single(figure: Figure, view: MapView) -> None:
    queries, keys = view.weights.shape[-2:]
    cell = min(0.28, 16 / max(queries, keys))
    size = max(5.0, min(9.0, 60 * cell))
    figure.set_size_inches(max(4.0, 1.6 + keys * cell), max(3.0, 1.8 + queries * cell))
    axes = figure.add_subplot()
    image = _draw_map(axes, view, 0, 0)
    axes.set_xticks(range(keys), [_label(key) for key in view.keys], rotation=90, fontsize=size)
    axes.set_yticks(range(queries), [_label(query) for query in view.queries], fontsize=size)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xlabel(
        {"cross": "source", "encoder": "source (keys)", "decoder": "read so far (keys)"}[view.kind], fontsize=8
    )
    axes.set_ylabel({"cross": "translation", "encoder": "source", "decoder": "translation"}[view.kind], fontsize=8)
    axes.set_title(_title(view, 0, 0), fontsize=8)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1])
    bar.ax.tick_params(labelsize=7)


def _draw_grid(figure: Figure, maps: list[MapView]) -> None:
    """Draws layers downwards and heads to the right, one block per kind. Queries are named at the left of each row of
    maps, keys above each block, because all maps of a block have the same. All maps share one pair of axes in inches,
    because laying out one pair per map would take seconds."""
    columns = max(len(view.heads) for view in maps)
    left, top, size, gap = 0.95, 0.5, 1.45, 0.22
    blocks = [_GRID_LABELS + len(view.layers) * (size + gap) for view in maps]
    width, height = left + columns * (size + gap / 2) + 0.1, top + sum(blocks) + 0.5
    figure.set_size_inches(width, height)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    y = top
    for view, block in zip(maps, blocks, strict=True):
        y += _GRID_LABELS
        for layer in range(len(view.layers)):
            _side_labels(axes, view.queries, left - 0.04, y + gap, size, rotated=False)
            for head in range(len(view.heads)):
                x = left + head * (size + gap / 2)
                if layer == 0:
                    _side_labels(axes, view.keys, x, y - 0.02, size, rotated=True)
                extent = (x, x + size, y + gap + size, y + gap)  # left, right, bottom, top
                image = axes.imshow(
                    view.weights[layer, head], cmap="Blues", norm=_scale(), extent=extent, interpolation="nearest"
                )
                axes.text(x, y + gap - 0.04, _title(view, layer, head), fontsize=6)
            y += size + gap
        y += block - _GRID_LABELS - len(view.layers) * (size + gap)
    axes.set_aspect("auto")
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    bar = figure.colorbar(
        image, cax=figure.add_axes((left / width, 0.28 / height, size / width, 0.08 / height)), orientation="horizontal"
    )
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1])
    bar.ax.tick_params(labelsize=6, length=2)


_GRID_LABELS = 0.75
"""Room above a block of maps for the names of its keys, in inches."""


def _side_labels(axes: Axes, labels: Sequence[str], x: float, y: float, size: float, *, rotated: bool) -> None:
    """Names the rows of a map to the left of it, or (`rotated`) its columns above it. Labels that would be unreadably
    small are left out at equal distances."""
    cell = size / len(labels)
    step = max(1, math.ceil(0.055 / cell))
    font = min(6.0, 60 * cell * step)
    for number in range(0, len(labels), step):
        place = (number + 0.5) * cell
        where = (x + place, y) if rotated else (x, y + place)
        axes.text(
            *where, _label(labels[number], 14), fontsize=font, rotation=90 if rotated else 0,
            ha="center" if rotated else "right", va="bottom" if rotated else "center",
        )  # fmt: skip


def _scale() -> PowerNorm:
    """Returns the scale of all pictures: white is 0 and the darkest colour is 1, with more colours for small weights."""
    from matplotlib.colors import PowerNorm

    return PowerNorm(GAMMA, vmin=0, vmax=1, clip=True)


def _draw_map(axes: Axes, view: MapView, layer: int, head: int):  # type: ignore[no-untyped-def]
    weights = view.weights[layer, head]
    if view.weights.size <= _VECTOR_CELLS:
        mesh = axes.pcolormesh(weights, cmap="Blues", norm=_scale(), linewidth=0)
        # Cells are centred on whole numbers as in an image, so that tick positions are the same for both.
        mesh.set_transform(_shifted_by_half(axes))
        axes.set_xlim(-0.5, weights.shape[1] - 0.5)
        axes.set_ylim(weights.shape[0] - 0.5, -0.5)
        return mesh
    return axes.imshow(weights, cmap="Blues", norm=_scale(), aspect="auto", interpolation="nearest")


def _shifted_by_half(axes: Axes):  # type: ignore[no-untyped-def]
    from matplotlib.transforms import Affine2D

    return Affine2D().translate(-0.5, -0.5) + axes.transData


def _title(view: MapView, layer: int, head: int) -> str:
    name = view.heads[head]
    return f"{view.kind}  layer {view.layers[layer]}  " + (f"head {name}" if isinstance(name, int) else name)


def _label(text: str, limit: int = 32) -> str:
    """Returns a label without control characters, shortened in the middle to about `limit` characters."""
    printable = "".join(c if unicodedata.category(c)[0] != "C" else "\u00b7" for c in text)
    return (
        printable if len(printable) <= limit else printable[: limit * 2 // 3] + "\u2026" + printable[1 - limit // 3 :]
    )


def _fonts() -> list[str]:
    """Returns the label fonts that are installed, in order of preference."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [font for font in _FONTS if font in installed] or ["sans-serif"]
