"""Attention maps of a given source and target: one teacher-forced pass with explicit softmax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch

from model.analysis.types import CANDIDATES, AttentionMaps, Head, HeadVectors, check_head, check_pair
from model.attention import MultiHeadAttention
from model.backends.torch.inputs import head_gates, pad_ids, to_array
from model.layers import DecoderLayer
from model.transformer import Transformer


@torch.inference_mode()
def attention_maps(
    transformer: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    masked_heads: Sequence[Head] = (),
    vectors_of: Head | None = None,
) -> AttentionMaps:
    """Returns the attention of a pair: `source` ids as the encoder reads them, `target` ids without start and end of
    sentence. `vectors_of` adds the queries, keys and values of one head.

    A causal decoder computes in parallel exactly the weights that it had when it decoded token by token (section
    3.2.3), so these are the weights that produced the target. Raises ValueError for lengths the model cannot read, ids
    outside its vocabulary and heads it does not have.
    """
    config = transformer.config
    check_pair(config, source, target)
    parameter = next(transformer.parameters())
    ids, mask = pad_ids([source], config.pad_id, parameter.device)  # (1, S)
    inputs = torch.tensor([[config.decoder_start_id, *target]], device=parameter.device)  # (1, T)
    if transformer.training:  # eval() visits every module
        transformer.eval()
    gates = head_gates(transformer, [tuple(masked_heads)]) if masked_heads else None
    with _recorded(transformer, vectors_of) as seen, _recorded_gates(transformer) as gates_of_layers:
        logits, weights = transformer.forward_with_weights(ids, mask, inputs, gates)
    scores = torch.log_softmax(logits[0].float(), dim=-1)  # (T, V)
    written = torch.tensor([*target, config.eos_id], device=parameter.device)
    best, best_ids = scores.topk(min(CANDIDATES, scores.shape[-1]), dim=-1)  # (T, C)
    return AttentionMaps(
        cross=to_array(weights.cross[:, 0]),
        encoder=to_array(weights.encoder[:, 0]),
        decoder=to_array(weights.decoder[:, 0]),
        token_scores=to_array(scores.gather(1, written[:, None])[:, 0]),
        candidate_ids=best_ids.cpu().numpy(),
        candidate_scores=to_array(best),
        vectors=None if vectors_of is None else _vectors(transformer, vectors_of, seen),
        forget_gates=to_array(torch.stack(gates_of_layers)) if gates_of_layers else None,
    )


@contextmanager
def _recorded(transformer: Transformer, head: Head | None) -> Iterator[dict[str, torch.Tensor]]:
    """Records the outputs (1, T, d_model) of the projections of one head's layer while the block runs."""
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


@contextmanager
def _recorded_gates(transformer: Transformer) -> Iterator[list[torch.Tensor]]:
    """Records the mean of the forget gates (T,) of each layer with a recurrence while the block runs."""
    seen: list[torch.Tensor] = []
    recurrences = [cast(DecoderLayer, block).recurrence for block in transformer.decoder]
    hooks = [
        recurrence.forget.register_forward_hook(
            lambda _, __, output: seen.append(torch.sigmoid(output[0].float()).mean(dim=-1))
        )
        for recurrence in recurrences
        if recurrence is not None
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _attention(transformer: Transformer, head: Head) -> MultiHeadAttention:
    check_head(transformer.config, head)
    kind, layer, _ = head
    block = (transformer.encoder if kind == "encoder" else transformer.decoder)[layer]
    return cast(MultiHeadAttention, block.cross_attention if kind == "cross" else block.self_attention)


def _vectors(transformer: Transformer, head: Head, seen: dict[str, torch.Tensor]) -> HeadVectors:
    _, _, number = head
    split = _attention(transformer, head).split
    query, key, value = (split(seen[name]) for name in ("query", "key", "value"))  # (1, H, T, D)
    return HeadVectors(to_array(query[0, number]), to_array(key[0, number]), to_array(value[0, number]))
