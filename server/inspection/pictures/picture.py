"""Pictures of an inspected sentence: maps, lines of heads, the word alignment, or the card."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from model.analysis.attention_alignment import Word
from model.analysis.types import Head
from server.errors import InvalidRequest
from server.inspection.attention_view import MapView, ViewOptions, select_maps
from server.inspection.pictures.labels import map_name
from server.inspection.pictures.lines import (
    HEADS_LIMIT,
    Line,
    LinkedSentences,
    draw_alignment,
    draw_card,
    draw_lines,
    fits_on_lines,
)
from server.inspection.pictures.maps import KEYS, QUERIES, draw_grid, draw_map
from server.inspection.pictures.svg import THEMES, Drawing, font_folder, png_chunk, write_svg
from server.inspection.text_alignment import align_words
from server.inspection.types import InspectionResult, out_of_range
from server.text.languages import language_name

if TYPE_CHECKING:
    import typst


PictureFormat = Literal["svg", "png", "pdf"]
PIXELS_LIMIT = 24_000_000
"""Limit on the pixels of a PNG."""
DPI, CARD_DPI = 144, 96
_USUAL_PIXELS = 3_000_000
"""Pixels of a PNG beyond which the resolution is lowered, unless the request sets it."""
_LEAST_DPI = 72
_CSS_DPI = 96
_PAGE = b"""
#set page(width: auto, height: auto, margin: 0pt)
#set document(date: none)
#image(bytes(sys.inputs.svg), format: "svg")
"""
_PNG_HEAD = 33
"""Bytes of a PNG before its second chunk."""


def write(drawing: Drawing, format: PictureFormat, options: ViewOptions) -> bytes:
    """Returns the file. Raises InvalidRequest for a PNG of too many pixels. Blocks for up to some
    hundred milliseconds."""
    width = float(options.width or drawing.width)
    if format == "svg":
        return write_svg(drawing, width)
    if format == "pdf":
        return _converted(write_svg(drawing, width), "pdf", _CSS_DPI)
    area = width * width * drawing.height / drawing.width
    dpi = options.dpi or _usual_dpi(area, CARD_DPI if options.view == "card" else DPI)
    if (pixels := area * (dpi / _CSS_DPI) ** 2) > PIXELS_LIMIT:
        raise InvalidRequest(
            f"The picture would have {pixels / 1e6:.0f} million pixels, over the limit of "
            f"{PIXELS_LIMIT // 1_000_000} million; lower width or dpi, or choose svg or pdf."
        )
    png = _converted(write_svg(drawing, width), "png", dpi)
    per_meter = round(dpi / 0.0254)
    resolution = png_chunk(b"pHYs", struct.pack(">IIB", per_meter, per_meter, 1))
    return png[:_PNG_HEAD] + resolution + png[_PNG_HEAD:]


def _usual_dpi(area: float, dpi: int) -> int:
    """Returns the resolution, lowered for large drawings. `area` is in pixels of the layout."""
    return max(_LEAST_DPI, min(dpi, int(_CSS_DPI * (_USUAL_PIXELS / area) ** 0.5)))


def _converted(svg: bytes, format: PictureFormat, dpi: int) -> bytes:
    import typst

    file = typst.compile(  # type: ignore[type-var]  # of its own annotations
        _PAGE,
        root=Path("/"),
        font_paths=_fonts(),
        format=format,
        ppi=dpi,
        sys_inputs={"svg": svg.decode()},
        pdf_tags=False,
    )
    return bytes(file)


@cache
def _fonts() -> typst.Fonts:
    """Returns the fonts of the system, and DejaVu Sans from the package ziafont."""
    import typst

    return typst.Fonts(include_embedded_fonts=False, font_paths=[font_folder()])


MAPS_LIMIT = 144
CELLS_LIMIT = 2_000_000
"""Bounds of one picture: number of maps, and of weights in all maps together."""
_LEAST_LINK = 0.05
"""Weight of a head below which an alignment shows no ribbon."""
_HEADS_NAMED = 3


def picture(
    result: InspectionResult,
    options: ViewOptions,
    format: PictureFormat,
    masked_heads: tuple[Head, ...] = (),
) -> bytes:
    """Returns a picture of the selected maps. Raises InvalidRequest for maps or options that no
    picture shows. Blocks for up to some hundred milliseconds."""
    result = _without_heads(result, masked_heads)
    without = [f"without {_named(masked_heads)}"] if masked_heads else []
    if options.view in ("alignment", "card"):
        return write(_linked(result, options, without), format, options)
    maps = select_maps(result, options)
    if not options.special:
        maps = [without_special(view, result, options.level) for view in maps]
    scale = {"max": "share of the largest weight of the map"}.get(
        options.normalize, "attention weight"
    )
    title = title_lines(result, options)
    if options.view == "lines":  # they have no scale
        title = (*title, *without)
    return write(draw(maps, options, title, "; ".join([scale, *without])), format, options)


def _without_heads(result: InspectionResult, heads: Sequence[Head]) -> InspectionResult:
    """Returns the result with zeros for heads that are off: their weights are not used."""
    if not heads:
        return result
    maps = result.attention.maps
    maps = dataclasses.replace(
        maps, cross=maps.cross.copy(), encoder=maps.encoder.copy(), decoder=maps.decoder.copy()
    )
    for kind, layer, head in heads:
        getattr(maps, kind)[layer, head] = 0
    return dataclasses.replace(result, attention=dataclasses.replace(result.attention, looked=maps))


def title_lines(result: InspectionResult, options: ViewOptions) -> tuple[str, ...]:
    if options.title is None:
        return tuple(line for line in (result.source.text, result.target.text) if line)
    return (options.title,) if options.title.strip() else ()


def without_special(view: MapView, result: InspectionResult, level: str) -> MapView:
    """Returns the maps without special tokens. Raises InvalidRequest if nothing is left."""
    kept = []
    for side in result.sides(view.kind):
        places = [
            (number,) if level == "word" else word.pieces
            for number, word in enumerate(side.words)
            if not word.special
        ]
        kept.append([place for group in places for place in group])
    rows, columns = kept
    if not rows or not columns:
        raise InvalidRequest(
            "special=0 leaves nothing to show, because the sentence has only special tokens."
        )
    return dataclasses.replace(
        view,
        weights=np.ascontiguousarray(view.weights[..., rows, :][..., columns]),
        queries=tuple(view.queries[row] for row in rows),
        keys=tuple(view.keys[column] for column in columns),
    )


def draw(
    maps: Sequence[MapView], options: ViewOptions, title: Sequence[str], caption: str
) -> Drawing:
    """Returns heat maps or lines. `caption` stands beside the scale. Raises InvalidRequest for maps
    that the view cannot show."""
    count = sum(len(view.layers) * len(view.heads) for view in maps)
    if count > MAPS_LIMIT:
        raise InvalidRequest(
            f"A picture shows at most {MAPS_LIMIT} maps, not {count}; choose a kind, layer or head."
        )
    if (cells := sum(view.weights.size for view in maps)) > CELLS_LIMIT:
        raise InvalidRequest(
            f"A picture shows at most {CELLS_LIMIT:,} weights, not {cells:,}; choose a layer or "
            "head."
        )
    theme = THEMES[options.theme]
    single = len(maps) == 1 and maps[0].weights.shape[:2] == (1, 1)
    if options.view == "lines":
        if len(maps) != 1 or len(maps[0].layers) != 1:
            raise InvalidRequest(
                "view=lines shows one layer of one kind: give kind (cross, encoder or decoder) and "
                "layer."
            )
        if len(maps[0].heads) > HEADS_LIMIT:
            raise InvalidRequest(
                f"view=lines shows at most {HEADS_LIMIT} heads; choose some, such as head=0,3."
            )
        [view] = maps
        query = query_number(options.query, view.queries)
        names = [map_name(view, 0, head) for head in range(len(view.heads))]
        weights = view.weights[0]
        if query is not None:  # the lines of the other queries are left out
            weights = np.where(
                np.arange(len(view.queries))[:, None] == query, weights, np.float32(0)
            )
        captions = QUERIES[view.kind], KEYS[view.kind]
        return draw_lines(weights, names, (view.queries, view.keys), captions, theme, title)
    if options.query is not None:
        raise InvalidRequest("query is for the views lines, alignment and card.")
    if options.view == "map" and not single:
        raise InvalidRequest(
            "view=map shows one map: give kind (cross, encoder or decoder), layer and head."
        )
    if single and options.view != "grid":
        return draw_map(maps[0], theme, title, caption)
    return draw_grid(maps, theme, title, caption)


def query_number(query: int | str | None, labels: Sequence[str]) -> int | None:
    """Returns the row that `query` names by number or text. Raises InvalidRequest if there is
    none."""
    if query is None:
        return None
    if isinstance(query, int):
        if query < len(labels):
            return query
        raise out_of_range("query", len(labels), "this picture", "row")
    word = query.strip().casefold()
    plain = [label.strip("\u2581 ").casefold() for label in labels]
    if word not in plain:
        raise InvalidRequest(
            "query names no row of this picture; give one of its words, or a number from 0."
        )
    return plain.index(word)


def _linked(result: InspectionResult, options: ViewOptions, without: Sequence[str]) -> Drawing:
    """Returns the alignment or the card. `without` names the heads that are off."""
    theme = THEMES[options.theme]
    pair, source_of_links = _pair(result, options)
    if options.view == "card":
        leg = result.subject.leg
        languages = f"{language_name(leg.source)} \u2192 {language_name(leg.target)}"
        return draw_card(
            pair, theme, languages, [source_of_links, *without, leg.model.name], options.title
        )
    # the sentences are in the picture
    title = title_lines(result, options) if options.title is not None else ()
    caption = "; ".join([source_of_links, *without])
    if fits_on_lines(pair):
        return draw_alignment(pair, theme, title, caption)
    weights = np.zeros((1, len(pair.source.words), len(pair.target.words)), dtype=np.float32)
    for source, target, weight in pair.links:
        if pair.chosen is None or target == pair.chosen:
            weights[0, source, target] = weight
    sides = pair.source.words, pair.target.words
    return draw_lines(weights, (caption,), sides, ("source", "translation"), theme, title)


def _pair(result: InspectionResult, options: ViewOptions) -> tuple[LinkedSentences, str]:
    """Returns the words without special tokens, their links (the word alignment, or one map of
    cross-attention if layer and head are given), and the name of the links."""
    if options.layer == "all" and options.head == "all":
        aligned = align_words(result)
        links, source_of_links = aligned.links, f"word alignment ({aligned.method})"
    else:
        chosen = options.model_copy(update={"kind": "cross", "level": "word"})
        [view] = select_maps(result, chosen)
        if view.weights.shape[:2] != (1, 1):
            raise InvalidRequest(
                "The views alignment and card show the word alignment, or one map: give layer and "
                "head."
            )
        weights = view.weights[0, 0]
        links = tuple(
            (int(k), int(q), float(weights[q, k])) for q, k in np.argwhere(weights >= _LEAST_LINK)
        )
        source_of_links = map_name(view, 0, 0)
    source, sources = _line(result.source.words)
    target, targets = _line(result.target.words)
    kept = tuple(
        (sources[i], targets[j], weight)
        for i, j, weight in links
        if weight and i in sources and j in targets
    )
    return LinkedSentences(
        source, target, kept, query_number(options.query, target.words)
    ), source_of_links


def _line(words: Sequence[Word]) -> tuple[Line, dict[int, int]]:
    """Returns the words that are not special, and their places by their numbers."""
    shown = [(number, word) for number, word in enumerate(words) if not word.special]
    joined = [
        place for place in range(1, len(shown)) if shown[place][1].start == shown[place - 1][1].end
    ]
    line = Line(tuple(word.text for _, word in shown), frozenset(joined))
    return line, {number: place for place, (number, _) in enumerate(shown)}


def _named(heads: Sequence[Head]) -> str:
    """Returns the names of some heads, such as "cross.0.1, encoder.2.3"."""
    names = [f"{kind}.{layer}.{number}" for kind, layer, number in heads[:_HEADS_NAMED]]
    more = len(heads) - _HEADS_NAMED
    return ", ".join(names) + (f" and {more} more heads" if more > 0 else "")
