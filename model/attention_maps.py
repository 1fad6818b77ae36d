"""Where the model looked: one teacher-forced pass with explicit softmax, for a source and a target that are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from model.attention import MultiHeadAttention
from model.inference import head_gates, pad_ids
from model.positions import rotate
from model.transformer import Transformer

Head = tuple[str, int, int]
"""(kind, layer, head) with kind "encoder" | "decoder" | "cross", counted from 0."""

CANDIDATES = 8
"""Likeliest tokens that are kept for every place of the target."""


@dataclass(frozen=True, slots=True)
class HeadVectors:
    """What one head computed with: `query` (T, D), `key` (S, D), `value` (S, D); rotated where positions are rotary."""

    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """Weights of every head, float32, with T = len(target) + 1 queries: row t produced target token t, the last row the
    end of sentence; the keys of `decoder` are the start, then the target.

    `token_scores` (T,) are natural log-probabilities of the target's tokens, then of the end of sentence.
    `candidate_ids` and `candidate_scores` (T, C) are the likeliest tokens at each place, best first.
    """

    cross: NDArray[np.float32]  # (L, H, T, S)
    encoder: NDArray[np.float32]  # (L, H, S, S)
    decoder: NDArray[np.float32]  # (L, H, T, T)
    token_scores: NDArray[np.float32]
    candidate_ids: NDArray[np.int64]
    candidate_scores: NDArray[np.float32]
    vectors: HeadVectors | None = None


@torch.inference_mode()
def attention_maps(
    transformer: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    masked_heads: Sequence[Head] = (),
    vectors_of: Head | None = None,
) -> AttentionMaps:
    """Attention of a pair: `source` ids as the encoder reads them, `target` ids without start and end of sentence.
    `vectors_of` asks for the queries, keys and values of one head.

    A causal decoder computes in parallel exactly the weights that it had when it decoded token by token (section
    3.2.3), so these are the weights that produced the target. Raises ValueError for lengths the model cannot read, ids
    outside its vocabulary and heads it does not have.
    """
    config = transformer.config
    _check("source", source, config.source_vocab_size or config.vocab_size, config.max_length, least=1)
    _check("target", target, config.vocab_size, config.max_length - 1, least=0)
    parameter = next(transformer.parameters())
    ids, mask = pad_ids([source], config.pad_id, parameter.device)  # (1, S)
    inputs = torch.tensor([[config.decoder_start_id, *target]], device=parameter.device)  # (1, T)
    if transformer.training:  # asked first: eval() visits every module
        transformer.eval()
    gates = head_gates(transformer, [tuple(masked_heads)]) if masked_heads else None
    with _watched(transformer, vectors_of) as seen:
        logits, weights = transformer.forward_with_weights(ids, mask, inputs, gates)
    scores = torch.log_softmax(logits[0].float(), dim=-1)  # (T, V)
    written = torch.tensor([*target, config.eos_id], device=parameter.device)
    best, best_ids = scores.topk(min(CANDIDATES, scores.shape[-1]), dim=-1)  # (T, C)
    return AttentionMaps(
        cross=_array(weights.cross[:, 0]),
        encoder=_array(weights.encoder[:, 0]),
        decoder=_array(weights.decoder[:, 0]),
        token_scores=_array(scores.gather(1, written[:, None])[:, 0]),
        candidate_ids=best_ids.cpu().numpy(),
        candidate_scores=_array(best),
        vectors=None if vectors_of is None else _vectors(transformer, vectors_of, seen),
    )


@contextmanager
def _watched(transformer: Transformer, head: Head | None) -> Iterator[dict[str, torch.Tensor]]:
    """Keeps what the projections of one head's layer put out, (1, T, d_model) each, while the block runs."""
    seen: dict[str, torch.Tensor] = {}
    if head is None:
        yield seen
        return
    attention = _attention(transformer, head)
    hooks = [
        getattr(attention, name).register_forward_hook(lambda _, __, output, name=name: seen.update({name: output}))
        for name in ("query", "key", "value")
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _attention(transformer: Transformer, head: Head) -> MultiHeadAttention:
    kind, layer, number = head
    layers = {"encoder": transformer.encoder, "decoder": transformer.decoder, "cross": transformer.decoder}.get(kind)
    if layers is None or not (0 <= layer < len(layers) and 0 <= number < transformer.config.heads):
        raise ValueError(f"There is no {kind} head {number} in layer {layer}.")
    block = layers[layer]
    return cast(MultiHeadAttention, block.cross_attention if kind == "cross" else block.self_attention)


def _vectors(transformer: Transformer, head: Head, seen: dict[str, torch.Tensor]) -> HeadVectors:
    kind, _, number = head
    split = _attention(transformer, head).split
    query, key, value = (split(seen[name]) for name in ("query", "key", "value"))  # (1, H, T, D)
    if kind != "cross" and transformer.config.positions == "rotary":
        positions = torch.arange(query.shape[2], device=query.device)
        query, key = rotate(query, positions), rotate(key, positions)
    return HeadVectors(_array(query[0, number]), _array(key[0, number]), _array(value[0, number]))


def _array(tensor: torch.Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.float().cpu().numpy())


def _check(name: str, ids: Sequence[int], vocabulary: int, longest: int, *, least: int) -> None:
    if not least <= len(ids) <= longest:
        raise ValueError(f"The {name} has {len(ids)} tokens; the model reads {least} to {longest}.")
    if any(not 0 <= token < vocabulary for token in ids):
        raise ValueError(f"The {name} holds an id outside the vocabulary of {vocabulary}.")
