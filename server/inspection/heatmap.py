"""Attention maps as pictures: labelled heat maps for print, SVG and PNG. Pure functions; matplotlib is loaded at the
first picture."""

from __future__ import annotations

import io
import threading
import unicodedata
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from server.errors import InvalidRequest
from server.inspection.attention_view import MapView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["svg", "png"]

MAPS_LIMIT = 144
CELLS_LIMIT = 2_000_000
"""Bounds of one picture: maps, and weights in all of them together."""
DPI = 150
_VECTOR_CELLS = 2_500
"""Up to so many weights an SVG draws each as a shape; more are one embedded image."""
_FONTS = ["DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew"]
_drawing = threading.Lock()  # matplotlib's font cache and mathtext are not thread-safe


def picture(maps: list[MapView], format: Format, title: str) -> bytes:
    """One heat map, or a grid where layers x heads are several: queries downwards, keys to the right, weights in
    colour.

    Raises InvalidRequest for more maps or weights than fit one picture. Takes up to a second: call it in a thread.
    """
    count = sum(len(view.layers) * len(view.heads) for view in maps)
    if count > MAPS_LIMIT:
        raise InvalidRequest(f"A picture shows at most {MAPS_LIMIT} maps, not {count}; choose a kind, layer or head.")
    if (cells := sum(view.weights.size for view in maps)) > CELLS_LIMIT:
        raise InvalidRequest(f"A picture shows at most {CELLS_LIMIT:,} weights, not {cells:,}; choose a layer or head.")
    with _drawing:
        return _draw(maps, format, title)


def _draw(maps: list[MapView], format: Format, title: str) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Labels stay text in an SVG: whoever shows it has fonts for every script and knows which way each is written.
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "attentive",
        "font.family": _fonts(),
        "text.parse_math": False,
    }
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # it is drawn as a box
        alone = len(maps) == 1 and maps[0].weights.shape[:2] == (1, 1)
        figure = Figure(layout="constrained" if alone else None)
        heading = figure.suptitle(_plain(title, 160), fontsize=9, x=0.01, ha="left", wrap=True)
        if alone:
            _single(figure, maps[0])
        else:
            _grid(figure, maps)
            heading.set_y(1 - 0.1 / figure.get_figheight())
        stream = io.BytesIO()
        metadata = {"Date": None} if format == "svg" else {"Software": "Attentive"}
        figure.savefig(stream, format=format, dpi=DPI, metadata=metadata)
        return stream.getvalue()


def _single(figure: Figure, view: MapView) -> None:
    queries, keys = view.weights.shape[-2:]
    cell = min(0.28, 16 / max(queries, keys))
    size = max(5.0, min(9.0, 60 * cell))
    figure.set_size_inches(max(4.0, 1.6 + keys * cell), max(3.0, 1.8 + queries * cell))
    axes = figure.add_subplot()
    image = _heat(axes, view, 0, 0)
    axes.set_xticks(range(keys), [_plain(key) for key in view.keys], rotation=90, fontsize=size)
    axes.set_yticks(range(queries), [_plain(query) for query in view.queries], fontsize=size)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xlabel(
        {"cross": "source", "encoder": "source (keys)", "decoder": "read so far (keys)"}[view.kind], fontsize=8
    )
    axes.set_ylabel({"cross": "translation", "encoder": "source", "decoder": "translation"}[view.kind], fontsize=8)
    axes.set_title(_name(view, 0, 0), fontsize=8)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.ax.tick_params(labelsize=7)


def _grid(figure: Figure, maps: list[MapView]) -> None:
    """Layers downwards, heads to the right, one block per kind; the labels are left to single maps. All maps lie on one
    pair of axes: as many axes as maps would take seconds to lay out."""
    rows = sum(len(view.layers) for view in maps)
    columns = max(len(view.heads) for view in maps)
    width, height = max(4.0, 1.5 * columns), 0.5 + 1.6 * rows
    figure.set_size_inches(width, height)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1 - 0.5 / height))
    row = 0
    for view in maps:
        for layer in range(len(view.layers)):
            for head in range(len(view.heads)):
                weights = view.weights[layer, head]
                place = (head + 0.05, head + 0.95, row + 0.95, row + 0.15)  # left, right, bottom, top
                axes.imshow(weights, cmap="Blues", vmin=0, vmax=_top(weights), extent=place, interpolation="nearest")
                axes.text(head + 0.05, row + 0.11, _name(view, layer, head), fontsize=6)
            row += 1
    axes.set_aspect("auto")
    axes.set_axis_off()
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)


def _top(weights: NDArray[np.float32]) -> float:
    """The weight that gets the darkest colour."""
    return float(weights.max()) or 1.0


def _heat(axes: Axes, view: MapView, layer: int, head: int):  # type: ignore[no-untyped-def]
    weights = view.weights[layer, head]
    top = _top(weights)
    if view.weights.size <= _VECTOR_CELLS:
        mesh = axes.pcolormesh(weights, cmap="Blues", vmin=0, vmax=top, linewidth=0)
        # Cells are centred on whole numbers, as in an image, so that ticks mean the same in both.
        mesh.set_transform(_half_back(axes))
        axes.set_xlim(-0.5, weights.shape[1] - 0.5)
        axes.set_ylim(weights.shape[0] - 0.5, -0.5)
        return mesh
    return axes.imshow(weights, cmap="Blues", vmin=0, vmax=top, aspect="auto", interpolation="nearest")


def _half_back(axes: Axes):  # type: ignore[no-untyped-def]
    from matplotlib.transforms import Affine2D

    return Affine2D().translate(-0.5, -0.5) + axes.transData


def _name(view: MapView, layer: int, head: int) -> str:
    shown = view.heads[head]
    return f"{view.kind}  layer {view.layers[layer]}  " + (f"head {shown}" if isinstance(shown, int) else shown)


def _plain(text: str, most: int = 32) -> str:
    """A label as it may be printed: no control characters, one of more than `most` characters cut in the middle."""
    printable = "".join(c if unicodedata.category(c)[0] != "C" else "\u00b7" for c in text)
    return printable if len(printable) <= most else printable[: most * 2 // 3] + "\u2026" + printable[1 - most // 3 :]


def _fonts() -> list[str]:
    """The fonts for labels that this machine has, in order of preference."""
    from matplotlib import font_manager

    known = {font.name for font in font_manager.fontManager.ttflist}
    return [font for font in _FONTS if font in known] or ["sans-serif"]
