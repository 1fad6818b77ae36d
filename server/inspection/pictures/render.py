"""Chooses the layout of a picture of maps, and checks its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from server.errors import InvalidRequest
from server.inspection.attention_view import MapView
from server.inspection.pictures.lines import HEADS_LIMIT, draw_lines, head_stripes
from server.inspection.pictures.maps import draw_grid, draw_map
from server.inspection.pictures.svg import Drawing
from server.inspection.pictures.themes import THEMES, ThemeName
from server.inspection.types import out_of_range

PictureFormat = Literal["svg", "png", "pdf"]
View = Literal["map", "grid", "lines", "alignment", "card"]

MAPS_LIMIT = 144
CELLS_LIMIT = 2_000_000
"""Bounds of one picture: number of maps, and of weights in all maps together."""
WIDTHS = (100, 4_000)
DPIS = (36, 600)
TITLE_LIMIT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureOptions:
    """Options of a picture. `width` in pixels of 1/96 inch; by default the layout's own. `dpi` sets the pixels of a PNG.
    `title` None is the sentence and its translation, and "" is no title. `query` is the number or the text of the row
    whose lines are shown or stand out."""

    view: View | None = None
    width: int | None = None
    dpi: int | None = None
    theme: ThemeName = "light"
    title: str | None = None
    special: bool = True
    query: int | str | None = None


def draw(maps: Sequence[MapView], options: PictureOptions, title: Sequence[str], caption: str) -> Drawing:
    """Returns a picture of maps: heat maps or lines. `caption` stands beside the scale. Raises InvalidRequest for maps
    that the view cannot show."""
    check(maps)
    theme = THEMES[options.theme]
    single = len(maps) == 1 and maps[0].weights.shape[:2] == (1, 1)
    if options.view == "lines":
        if len(maps) != 1 or len(maps[0].layers) != 1:
            raise InvalidRequest(
                "view=lines shows one layer of one kind: give kind (cross, encoder or decoder) and layer."
            )
        if len(maps[0].heads) > HEADS_LIMIT:
            raise InvalidRequest(f"view=lines shows at most {HEADS_LIMIT} heads; choose some, such as head=0,3.")
        stripes = head_stripes(maps[0], query_number(options.query, maps[0].queries))
        return draw_lines(stripes, theme, title)
    if options.query is not None:
        raise InvalidRequest("query is for the views lines, alignment and card.")
    if options.view == "map" and not single:
        raise InvalidRequest("view=map shows one map: give kind (cross, encoder or decoder), layer and head.")
    if single and options.view != "grid":
        return draw_map(maps[0], theme, title, caption)
    return draw_grid(maps, theme, title, caption)


def check(maps: Sequence[MapView]) -> None:
    """Raises InvalidRequest for more maps or weights than the bounds allow."""
    count = sum(len(view.layers) * len(view.heads) for view in maps)
    if count > MAPS_LIMIT:
        raise InvalidRequest(f"A picture shows at most {MAPS_LIMIT} maps, not {count}; choose a kind, layer or head.")
    if (cells := sum(view.weights.size for view in maps)) > CELLS_LIMIT:
        raise InvalidRequest(f"A picture shows at most {CELLS_LIMIT:,} weights, not {cells:,}; choose a layer or head.")


def query_number(query: int | str | None, labels: Sequence[str]) -> int | None:
    """Returns the number of the row that `query` names by number or text. Raises InvalidRequest if there is none."""
    if query is None:
        return None
    if isinstance(query, int):
        if query < len(labels):
            return query
        raise out_of_range("query", len(labels), "this picture", "row")
    word = query.strip().casefold()
    plain = [label.strip("\u2581 ").casefold() for label in labels]
    if word not in plain:
        raise InvalidRequest("query names no row of this picture; give one of its words, or a number from 0.")
    return plain.index(word)
