"""Selects and transforms attention maps for display: kinds, layers, heads, words, rollout, scale. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.analysis.attention_alignment import to_words
from model.analysis.head_statistics import HeadFigures, Rollout, head_figures, rollout
from server.errors import InvalidRequest, NotFound
from server.inspection.types import InspectionResult, out_of_range
from server.inspection.word_alignment import SentenceWords

Weights = NDArray[np.float32]
Kind = Literal["cross", "encoder", "decoder"]
Level = Literal["piece", "word"]
Scale = Literal["none", "row", "max"]
KINDS: tuple[Kind, ...] = ("cross", "encoder", "decoder")
RECURRENT = (
    "This model has no decoder maps: its decoder has a recurrence (SSRU) in place of self-attention, which keeps one state "
    "instead of attending to earlier words."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """Selection of maps. `head` is a number, several such as "0,3", "mean", "max" or "all". `rollout` selects attention
    rollout instead of heads, one map per layer. `normalize` "row" makes every row sum to 1, "max" divides a map by its
    largest weight."""

    kinds: tuple[Kind, ...] = KINDS
    layer: int | Literal["all"] = "all"
    head: int | str = "all"
    level: Level = "piece"
    rollout: bool = False
    normalize: Scale = "none"


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


def select_maps(result: InspectionResult, options: ViewOptions, words: SentenceWords) -> list[MapView]:
    """Returns the selected maps, without those in `absent_kinds`. `words` are those of the result. Raises InvalidRequest
    for a layer or head that the model does not have, and NotFound if none of the kinds exists."""
    absent = absent_kinds(result)
    kinds = [kind for kind in options.kinds if kind not in absent]
    if not kinds:
        raise NotFound(RECURRENT)
    if options.rollout and absent:
        raise InvalidRequest(f"{RECURRENT} Attention rollout needs them.")
    raw = {kind: maps_of(result, kind) for kind in KINDS}
    rolled = rollout(raw["encoder"], raw["decoder"], raw["cross"]) if options.rollout else None
    return [_view(result, kind, raw[kind], rolled, words, options) for kind in kinds]


def absent_kinds(result: InspectionResult) -> dict[Kind, str]:
    """Returns the kinds of maps that the model does not have, each with the reason in one sentence."""
    return {"decoder": RECURRENT} if maps_of(result, "decoder").shape[1] == 0 else {}


def maps_of(result: InspectionResult, kind: Kind) -> Weights:
    """Returns one kind of map: cross (L, H, T, S), encoder (L, H, S, S), decoder (L, H, T, T)."""
    maps = result.attention.maps
    return {"cross": maps.cross, "encoder": maps.encoder, "decoder": maps.decoder}[kind]


def head_statistics(result: InspectionResult, kinds: Sequence[Kind] = KINDS) -> dict[Kind, list[list[HeadFigures]]]:
    """Returns entropy, diagonality and role of every head, [layer][head] for each kind."""
    return {kind: head_figures(maps_of(result, kind), kind) for kind in kinds}


def _view(
    result: InspectionResult,
    kind: Kind,
    raw: Weights,
    rolled: Rollout | None,
    words: SentenceWords,
    options: ViewOptions,
) -> MapView:
    queries, keys = words.sides(kind)
    layers = _indices("layer", options.layer, raw.shape[0])
    maps, heads = _select_heads(kind, raw[list(layers)], rolled, layers, options)
    if options.level == "word":
        maps = to_words(maps, queries, keys)
        labels = tuple(word.text for word in queries), tuple(word.text for word in keys)
    else:
        labels = _pieces(result, kind)
    return MapView(kind, _normalize(maps, options.normalize), layers, heads, *labels)


def _select_heads(
    kind: Kind, raw: Weights, rolled: Rollout | None, layers: tuple[int, ...], options: ViewOptions
) -> tuple[Weights, tuple[int | str, ...]]:
    """Returns the selected heads and their numbers or names."""
    if rolled is not None:
        stack = {"cross": rolled.cross, "encoder": rolled.encoder, "decoder": rolled.decoder}[kind]
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


def _pieces(result: InspectionResult, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    source = tuple(token.piece for token in result.source)
    target = tuple(token.piece for token in result.target)
    read = tuple(token.piece for token in result.decoder_input)
    return {"cross": (target, source), "encoder": (source, source), "decoder": (target, read)}[kind]
