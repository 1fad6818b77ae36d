"""Selects and transforms attention maps for display: kinds, layers, heads, words, rollout, scale. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.analysis.attention_alignment import (
    AlignmentChoice,
    Word,
    alignment_map,
    coverage,
    target_to_source,
    to_words,
    words,
)
from model.analysis.head_statistics import HeadFigures, Rollout, head_figures, rollout
from server.errors import InvalidRequest
from server.inspection.inspector import InspectionResult, Token

Weights = NDArray[np.float32]
Kind = Literal["cross", "encoder", "decoder"]
Level = Literal["piece", "word"]
Scale = Literal["none", "row", "max"]
AlignmentMethod = Literal["combined", "attention"]
KINDS: tuple[Kind, ...] = ("cross", "encoder", "decoder")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """Selection of maps. `head` is a number, "mean", "max" or "all". `rollout` selects attention rollout instead of
    heads, one map per layer. `normalize` "row" makes every row sum to 1, "max" divides a map by its largest weight."""

    kinds: tuple[Kind, ...] = KINDS
    layer: int | Literal["all"] = "all"
    head: int | Literal["all", "mean", "max"] = "all"
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


@dataclass(frozen=True, slots=True)
class SentenceWords:
    """The words of the three sequences of a sentence pair."""

    source: tuple[Word, ...]
    target: tuple[Word, ...]
    decoder_input: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Links (source word, target word, weight).

    `method` "combined" is `model.analysis.pair_alignment`, whose weights are probabilities. "attention" links each
    target word to the source word with the largest weight in the heads of `choice`. `coverage` is the attention that
    each source word received in these heads, summed over the target.
    """

    method: AlignmentMethod
    choice: AlignmentChoice
    links: tuple[tuple[int, int, float], ...]
    coverage: tuple[float, ...]


def select_maps(result: InspectionResult, options: ViewOptions, words: SentenceWords) -> list[MapView]:
    """Returns the selected maps. `words` are those of the result. Raises InvalidRequest for a layer or head that the
    model does not have."""
    raw = {kind: maps_of(result, kind) for kind in KINDS}
    rolled = rollout(raw["encoder"], raw["decoder"], raw["cross"]) if options.rollout else None
    return [_view(result, kind, raw[kind], rolled, words, options) for kind in options.kinds]


def maps_of(result: InspectionResult, kind: Kind) -> Weights:
    """Returns one kind of map: cross (L, H, T, S), encoder (L, H, S, S), decoder (L, H, T, T)."""
    maps = result.attention.maps
    return {"cross": maps.cross, "encoder": maps.encoder, "decoder": maps.decoder}[kind]


def split_words(result: InspectionResult) -> SentenceWords:
    """Returns the words of source, target and decoder input."""
    return SentenceWords(
        _words(result.source_text, result.source),
        _words(result.target_text, result.target),
        _words(result.target_text, result.decoder_input),
    )


def align_words(result: InspectionResult, found: SentenceWords) -> Alignment:
    """Returns the word alignment: "combined" if the request collected the evidence for it, else "attention" by the heads
    that the model folder names."""
    cross = result.attention.maps.cross
    choice = AlignmentChoice.load(result.subject.leg.model.folder, cross.shape[0])
    soft = alignment_map(cross, choice)
    combined = _combined_links(result, soft, found)
    links = target_to_source(soft, found.source, found.target) if combined is None else combined
    return Alignment(
        "attention" if combined is None else "combined",
        choice,
        tuple((source, target, weight) for (source, target), weight in sorted(links.items())),
        tuple(coverage(soft, found.source, found.target)),
    )


def _combined_links(
    result: InspectionResult, soft: Weights, found: SentenceWords
) -> dict[tuple[int, int], float] | None:
    """Returns the links by all evidence, or None where the request collected none."""
    if result.pairing is None or result.attention.evidence is None:
        return None
    sources = {(word.start, word.end): index for index, word in enumerate(found.source) if not word.special}
    targets = {(word.start, word.end): index for index, word in enumerate(found.target) if not word.special}
    links = result.pairing.links(result.attention.evidence, soft, found.source, found.target)
    return {(sources[a], targets[b]): weight for (a, b), weight in links.items() if a in sources and b in targets}


def head_statistics(result: InspectionResult, kinds: Sequence[Kind] = KINDS) -> dict[Kind, list[list[HeadFigures]]]:
    """Returns entropy, diagonality and role of every head, [layer][head] for each kind."""
    return {kind: head_figures(maps_of(result, kind), own=kind != "cross") for kind in kinds}


def _view(
    result: InspectionResult,
    kind: Kind,
    raw: Weights,
    rolled: Rollout | None,
    found: SentenceWords,
    options: ViewOptions,
) -> MapView:
    queries, keys = {
        "cross": (found.target, found.source),
        "encoder": (found.source, found.source),
        "decoder": (found.target, found.decoder_input),
    }[kind]
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
    if not isinstance(choice, int):
        return tuple(range(count))
    if not 0 <= choice < count:
        raise InvalidRequest(f"{name} must be between 0 and {count - 1} for this model.")
    return (choice,)


def _normalize(maps: Weights, scale: Scale) -> Weights:
    if scale == "none":
        return np.ascontiguousarray(maps)
    total = maps.sum(axis=-1, keepdims=True) if scale == "row" else maps.max(axis=(-2, -1), keepdims=True)
    return np.ascontiguousarray(np.divide(maps, total, out=np.zeros_like(maps), where=total > 0))


def _words(text: str, tokens: Sequence[Token]) -> tuple[Word, ...]:
    return words(text, [token.piece for token in tokens], [(token.start, token.end) for token in tokens])


def _pieces(result: InspectionResult, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    source = tuple(token.piece for token in result.source)
    target = tuple(token.piece for token in result.target)
    read = tuple(token.piece for token in result.decoder_input)
    return {"cross": (target, source), "encoder": (source, source), "decoder": (target, read)}[kind]
