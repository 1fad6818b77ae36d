"""Links by one map of cross-attention: each word with the word that has the largest weight for
it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from benchmarks.alignment.gold import Links, Written
from model.analysis.attention_alignment import (
    AlignmentLayer,
    Weights,
    Word,
    alignment_map,
    between_words,
    words,
)
from model.analysis.types import AttentionMaps
from model.search.options import DecodingOptions
from server.engine.client.engine_client import EngineClient
from server.engine.ipc.messages import Look
from server.translation.catalog import Leg


async def largest_links(
    engine: EngineClient, leg: Leg, source: Written, target: Written
) -> dict[str, Links]:
    """Returns the links by the contributions to each layer and by the weights of each head, in the
    row of a word and in the next one, by name."""
    read, written = leg.encode(source.text), leg.model.tokenizer.encode_target_pieces(target.text)
    maps = (
        await engine.answer(leg.model, read.ids, DecodingOptions(target=written.ids), Look())
    ).maps
    sources = words(source.text, read.pieces, read.offsets, source.spans)
    targets = words(target.text, written.pieces, written.offsets, target.spans)
    return {name: _largest(soft, sources, targets, source, target) for name, soft in _maps(maps)}


def _maps(maps: AttentionMaps) -> Iterator[tuple[str, Weights]]:
    layers, heads = maps.cross.shape[:2]
    for layer, shift in product(range(layers), (False, True)):
        which = f"layer {layer}" + (", next row" if shift else "")
        yield f"largest contribution, {which}", alignment_map(maps, AlignmentLayer(layer, shift))
        for head in range(heads):
            soft = maps.cross[layer, head]
            yield (
                f"largest weight, {which}, head {head}",
                np.concatenate([soft[1:], soft[-1:]]) if shift else soft,
            )


def _largest(
    soft: Weights,
    sources: tuple[Word, ...],
    targets: tuple[Word, ...],
    source: Written,
    target: Written,
) -> Links:
    weights = between_words(soft, sources, targets)  # (W, V)
    ours, theirs = (
        [side.spans.index((word.start, word.end)) for word in found if not word.special]
        for side, found in ((source, sources), (target, targets))
    )
    return (
        {(ours[i], theirs[j]) for j, i in enumerate(weights.argmax(axis=0))}
        if weights.size
        else set()
    )
