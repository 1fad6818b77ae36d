"""Selects and transforms attention maps for display: kinds, layers, heads, words, rollout, scale. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from model.analysis.attention_alignment import Weights, to_words
from model.analysis.head_statistics import Kind, Rollout, rollout
from server.errors import InvalidRequest, NotFound
from server.inspection.pictures.themes import ThemeName
from server.inspection.types import InspectionResult, out_of_range

Level = Literal["piece", "word"]
Scale = Literal["none", "row", "max"]
View = Literal["map", "grid", "lines", "alignment", "card"]
KINDS: tuple[Kind, ...] = ("cross", "encoder", "decoder")
RECURRENT = (
    "This model has no decoder maps: its decoder has a recurrence (SSRU) in place of self-attention, which keeps one state "
    "instead of attending to earlier words."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """Selection of maps, and options of their picture, as in AttentionParameters. `rollout` selects attention rollout
    instead of heads, one map per layer. `normalize` "row" makes every row sum to 1, "max" divides a map by its largest
    weight. A `width` None is the layout's own, a `title` None is the sentence and its translation."""

    kind: Kind | Literal["all"] = "all"
    layer: int | Literal["all"] = "all"
    head: int | str = "all"
    level: Level = "piece"
    rollout: bool = False
    normalize: Scale = "none"
    view: View | None = None
    width: int | None = None
    dpi: int | None = None
    theme: ThemeName = "light"
    title: str | None = None
    special: bool = True
    query: int | str | None = None


@dataclass(frozen=True, slots=True)
class MapView:
    """Maps of one kind: `weights` (layers, heads, queries, keys). `layers` and `heads` number the first two axes,
    `queries` and `keys` label the other two."""

    kind: Kind
    weights: Weights
    layers: tuple[int, ...]
    heads: tuple[int | str, ...]
    queries: tuple[str, ...]
    keys: tuple[str, ...]


def select_maps(result: InspectionResult, options: ViewOptions) -> list[MapView]:
    """Returns the selected maps, without those in `absent_kinds`. Raises InvalidRequest for a layer or head that the
    model does not have, and NotFound if none of the kinds exists."""
    absent = absent_kinds(result)
    kinds = [kind for kind in KINDS if options.kind in (kind, "all") and kind not in absent]
    if not kinds:
        raise NotFound(RECURRENT)
    if options.rollout and absent:
        raise InvalidRequest(f"{RECURRENT} Attention rollout needs them.")
    maps = result.attention.maps
    rolled = rollout(maps.encoder, maps.decoder, maps.cross) if options.rollout else None
    return [_view(result, kind, rolled, options) for kind in kinds]


def absent_kinds(result: InspectionResult) -> dict[Kind, str]:
    """Returns the kinds of maps that the model does not have, each with the reason in one sentence."""
    return {"decoder": RECURRENT} if result.maps("decoder").shape[1] == 0 else {}


def _view(result: InspectionResult, kind: Kind, rolled: Rollout | None, options: ViewOptions) -> MapView:
    queries, keys = result.sides(kind)
    raw = result.maps(kind)
    layers = _indices("layer", options.layer, raw.shape[0])
    maps, heads = _select_heads(kind, raw[list(layers)], rolled, layers, options)
    if options.level == "word":
        maps = to_words(maps, queries.words, keys.words)
        labels = tuple(word.text for word in queries.words), tuple(word.text for word in keys.words)
    else:
        labels = queries.pieces, keys.pieces
    return MapView(kind, _normalize(maps, options.normalize), layers, heads, *labels)


def _select_heads(
    kind: Kind, raw: Weights, rolled: Rollout | None, layers: tuple[int, ...], options: ViewOptions
) -> tuple[Weights, tuple[int | str, ...]]:
    """Returns the selected heads and their numbers or names."""
    if rolled is not None:
        stack: Weights = getattr(rolled, kind)
        return stack[list(layers)][:, None], ("rollout",)
    if options.head == "mean":
        return raw.mean(axis=1, keepdims=True), ("mean",)
    if options.head == "max":
        return raw.max(axis=1, keepdims=True), ("max",)
    heads = _indices("head", options.head, raw.shape[1])
    return raw[:, list(heads)], heads


def _indices(name: str, choice: int | str, count: int) -> tuple[int, ...]:
    if choice == "all":
        return tuple(range(count))
    chosen = (choice,) if isinstance(choice, int) else tuple(dict.fromkeys(map(int, choice.split(","))))
    if not all(0 <= number < count for number in chosen):
        raise out_of_range(name, count, "this model")
    return chosen


def _normalize(maps: Weights, scale: Scale) -> Weights:
    if scale == "none":
        return np.ascontiguousarray(maps)
    total = maps.sum(axis=-1, keepdims=True) if scale == "row" else maps.max(axis=(-2, -1), keepdims=True)
    return np.ascontiguousarray(np.divide(maps, total, out=np.zeros_like(maps), where=total > 0))
