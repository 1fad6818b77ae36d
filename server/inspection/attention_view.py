"""What of a look is shown: kinds, layers and heads, pieces or words, rollout, scale. NumPy only; text and numbers
out."""

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
from server.inspection.inspector import Look, Token

Weights = NDArray[np.float32]
Kind = Literal["cross", "encoder", "decoder"]
Level = Literal["piece", "word"]
Scale = Literal["none", "row", "max"]
AlignmentMethod = Literal["combined", "attention"]
KINDS: tuple[Kind, ...] = ("cross", "encoder", "decoder")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """What to show. `head` is a number, "mean", "max" or "all"; `rollout` shows attention rollout in place of heads,
    one map per layer. `normalize` "row" makes rows sum to 1, "max" divides a map by its largest weight."""

    kinds: tuple[Kind, ...] = KINDS
    layer: int | Literal["all"] = "all"
    head: int | Literal["all", "mean", "max"] = "all"
    level: Level = "piece"
    rollout: bool = False
    normalize: Scale = "none"


@dataclass(frozen=True, slots=True)
class MapView:
    """Maps of one kind: `weights` (layers, heads, queries, keys); `layers` and `heads` name the first two axes,
    `queries` and `keys` are the labels of the others."""

    kind: Kind
    weights: Weights
    layers: tuple[int, ...]
    heads: tuple[int | str, ...]
    queries: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """The words of the three sequences of a look."""

    source: tuple[Word, ...]
    target: tuple[Word, ...]
    decoder_input: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Links (source word, target word, weight). `method` "combined" is `model.pair_alignment`, whose weights are
    probabilities; "attention" takes what each target word attended to most with the heads of `choice`. `coverage` is how
    much attention of these heads each source word got from the whole target."""

    method: AlignmentMethod
    choice: AlignmentChoice
    links: tuple[tuple[int, int, float], ...]
    coverage: tuple[float, ...]


def views(look: Look, options: ViewOptions, found: Words) -> list[MapView]:
    """The maps asked for; `found` are the words of the look. Raises InvalidRequest for a layer or head that the model
    does not have."""
    raw = {kind: weights(look, kind) for kind in KINDS}
    rolled = rollout(raw["encoder"], raw["decoder"], raw["cross"]) if options.rollout else None
    return [_view(look, kind, raw[kind], rolled, found, options) for kind in options.kinds]


def weights(look: Look, kind: Kind) -> Weights:
    """Returns one kind of map: cross (L, H, T, S), encoder (L, H, S, S), decoder (L, H, T, T)."""
    maps = look.attended.maps
    return {"cross": maps.cross, "encoder": maps.encoder, "decoder": maps.decoder}[kind]


def words_of(look: Look) -> Words:
    """Words of source, target and decoder input."""
    return Words(
        _words(look.source_text, look.source),
        _words(look.target_text, look.target),
        _words(look.target_text, look.decoder_input),
    )


def alignment(look: Look, found: Words) -> Alignment:
    """Word alignment between the words of the look: from all evidence if the look asked for it, else by the heads that
    the model folder names."""
    cross = look.attended.maps.cross
    choice = AlignmentChoice.load(look.leg.model.folder, cross.shape[0])
    soft = alignment_map(cross, choice)
    combined = _combined(look, soft, found)
    links = target_to_source(soft, found.source, found.target) if combined is None else combined
    return Alignment(
        "attention" if combined is None else "combined",
        choice,
        tuple((source, target, weight) for (source, target), weight in sorted(links.items())),
        tuple(coverage(soft, found.source, found.target)),
    )


def _combined(look: Look, soft: Weights, found: Words) -> dict[tuple[int, int], float] | None:
    """Links from all evidence, where the look brought it."""
    if look.pairing is None or look.attended.evidence is None:
        return None
    sources = {(word.start, word.end): place for place, word in enumerate(found.source) if not word.special}
    targets = {(word.start, word.end): place for place, word in enumerate(found.target) if not word.special}
    links = look.pairing.links(look.attended.evidence, soft, found.source, found.target)
    return {(sources[a], targets[b]): weight for (a, b), weight in links.items() if a in sources and b in targets}


def figures(look: Look, kinds: Sequence[Kind] = KINDS) -> dict[Kind, list[list[HeadFigures]]]:
    """Entropy, diagonality and role of every head, [layer][head] for each kind."""
    return {kind: head_figures(weights(look, kind), own=kind != "cross") for kind in kinds}


def _view(look: Look, kind: Kind, raw: Weights, rolled: Rollout | None, found: Words, options: ViewOptions) -> MapView:
    queries, keys = {
        "cross": (found.target, found.source),
        "encoder": (found.source, found.source),
        "decoder": (found.target, found.decoder_input),
    }[kind]
    layers = _numbers("layer", options.layer, raw.shape[0])
    maps, heads = _heads(kind, raw[list(layers)], rolled, layers, options)
    if options.level == "word":
        maps = to_words(maps, queries, keys)
        labels = tuple(word.text for word in queries), tuple(word.text for word in keys)
    else:
        labels = _pieces(look, kind)
    return MapView(kind, _scaled(maps, options.normalize), layers, heads, *labels)


def _heads(
    kind: Kind, raw: Weights, rolled: Rollout | None, layers: tuple[int, ...], options: ViewOptions
) -> tuple[Weights, tuple[int | str, ...]]:
    """The head axis as asked for, with the names of its entries."""
    if rolled is not None:
        stack = {"cross": rolled.cross, "encoder": rolled.encoder, "decoder": rolled.decoder}[kind]
        return stack[list(layers)][:, None], ("rollout",)
    if options.head == "mean":
        return raw.mean(axis=1, keepdims=True), ("mean",)
    if options.head == "max":
        return raw.max(axis=1, keepdims=True), ("max",)
    heads = _numbers("head", options.head, raw.shape[1])
    return raw[:, list(heads)], heads


def _numbers(name: str, choice: int | str, count: int) -> tuple[int, ...]:
    if not isinstance(choice, int):
        return tuple(range(count))
    if not 0 <= choice < count:
        raise InvalidRequest(f"{name} must be between 0 and {count - 1} for this model.")
    return (choice,)


def _scaled(maps: Weights, scale: Scale) -> Weights:
    if scale == "none":
        return np.ascontiguousarray(maps)
    most = maps.sum(axis=-1, keepdims=True) if scale == "row" else maps.max(axis=(-2, -1), keepdims=True)
    return np.ascontiguousarray(np.divide(maps, most, out=np.zeros_like(maps), where=most > 0))


def _words(text: str, tokens: Sequence[Token]) -> tuple[Word, ...]:
    return words(text, [token.piece for token in tokens], [(token.start, token.end) for token in tokens])


def _pieces(look: Look, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    source = tuple(token.piece for token in look.source)
    target = tuple(token.piece for token in look.target)
    read = tuple(token.piece for token in look.decoder_input)
    return {"cross": (target, source), "encoder": (source, source), "decoder": (target, read)}[kind]
