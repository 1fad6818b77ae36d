"""Attention maps of a source and target: the softmax of the queries and keys of one teacher-forced
pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.analysis.contributions import value_products
from model.analysis.tensors import captured, check_followed, norm_parameters
from model.analysis.types import (
    CANDIDATES,
    EVERYTHING,
    AttentionMaps,
    Followed,
    Head,
    HeadVectors,
    check_head,
    check_pair,
)
from model.attention import MultiHeadAttention, attention_weights
from model.backends.torch.inputs import head_gates, pad_ids, to_array
from model.layers import DecoderLayer, EncoderLayer, Sublayer
from model.transformer import Transformer

Passed = dict[nn.Module, tuple[Tensor, Tensor]]
"""Input and output of the last call of each module."""


@contextmanager
def recorded(modules: Iterable[nn.Module]) -> Iterator[Passed]:
    """Yields a dictionary of what these modules read and return while the block runs."""
    passed: Passed = {}

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passed[module] = inputs[0], output

    hooks = [module.register_forward_hook(keep) for module in modules]
    try:
        yield passed
    finally:
        for hook in hooks:
            hook.remove()


@torch.inference_mode()
def attention_maps(
    transformer: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    masked_heads: Sequence[Head] = (),
    vectors_of: Head | None = None,
    followed: Followed | None = None,
) -> AttentionMaps:
    """Returns the attention of a pair: `source` ids as the encoder reads them, `target` ids without
    start and end of sentence. `vectors_of` adds the queries, keys and values of one head,
    `followed` the tensors of a layer.

    A causal decoder computes in parallel exactly the weights that it had token by token (section
    3.2.3). Raises ValueError for lengths, ids and heads that the model does not have.
    """
    config = transformer.config
    check_pair(config, source, target)
    check_followed(config, followed, source, target)
    if vectors_of is not None:
        check_head(config, vectors_of)
    parameter = next(transformer.parameters())
    ids, mask = pad_ids([source], config.pad_id, parameter.device)  # (1, S)
    inputs = torch.tensor([[config.decoder_start_id, *target]], device=parameter.device)  # (1, T)
    if transformer.training:  # eval() visits every module
        transformer.eval()
    gates = head_gates(transformer, [tuple(masked_heads)]) if masked_heads else None
    encoder = [cast("EncoderLayer", layer).self_attention for layer in transformer.encoder]
    decoder = [cast("DecoderLayer", layer) for layer in transformer.decoder]
    own = [layer.self_attention for layer in decoder if layer.recurrence is None]
    forget = [layer.recurrence.forget for layer in decoder if layer.recurrence is not None]
    cross = [layer.cross_attention for layer in decoder]
    projections = [
        part
        for attention in (*encoder, *own, *cross)
        for part in (attention.query, attention.key, attention.value)
    ]
    with recorded(transformer.modules() if followed else [*projections, *forget]) as passed:
        logits = transformer(ids, mask, inputs, gates)
    length = inputs.shape[1]
    causal = torch.full((length, length), -math.inf, device=parameter.device).triu(1)  # (T, T)
    # of a recurrence
    without_heads = np.zeros((config.decoder_layers, 0, length, length), dtype=np.float32)
    # (T,) each
    forget_gates = [torch.sigmoid(passed[gate][1][0].float()).mean(dim=-1) for gate in forget]
    scores = torch.log_softmax(logits[0].float(), dim=-1)  # (T, V)
    written = torch.tensor([*target, config.eos_id], device=parameter.device)
    best, best_ids = scores.topk(min(CANDIDATES, scores.shape[-1]), dim=-1)  # (T, C)
    return AttentionMaps(
        cross=_weights(cross, passed),
        encoder=_weights(encoder, passed),
        decoder=_weights(own, passed, causal) if own else without_heads,
        token_scores=to_array(scores.gather(1, written[:, None])[:, 0]),
        candidate_ids=best_ids.cpu().numpy(),
        candidate_scores=to_array(best),
        value_products=value_products(
            np.stack([to_array(_vectors(attention, passed)[2]) for attention in cross]),
            [
                to_array(attention.output.weight.T.reshape(config.heads, -1, config.d_model))
                for attention in cross
            ],
            masked_heads,
        ),
        vectors=None if vectors_of is None else _head_vectors(transformer, vectors_of, passed),
        forget_gates=to_array(torch.stack(forget_gates)) if forget_gates else None,
        normalizers=to_array(logits[0].float().logsumexp(dim=-1)),
        tensors=None
        if followed is None
        else _tensors(transformer, followed, (ids, inputs), passed),
        choice=replace(EVERYTHING, followed=followed),
    )


def _tensors(
    transformer: Transformer, followed: Followed, read: tuple[Tensor, Tensor], passed: Passed
) -> dict[str, NDArray[np.float32]]:
    """Returns the tensors of a layer (`model.analysis.tensors`) that a backend writes. `read` are
    the tokens of encoder and decoder, (1, S) and (1, T)."""
    config, encodes, index = transformer.config, followed.side == "encoder", followed.layer
    layers = list(transformer.encoder if encodes else transformer.decoder)
    sublayers = [_sublayers(cast("EncoderLayer | DecoderLayer", layer)) for layer in layers]
    norms = [part.residual.norm for part in sublayers[index]]
    if config.norm == "pre":
        last = transformer.encoder_norm if encodes else transformer.decoder_norm
        norms.append(sublayers[index + 1][0].residual.norm if index + 1 < len(layers) else last)
    stream = passed[layers[index]][0]
    passing = {
        "stream": stream,
        "input": passed[norms.pop(0)][1] if config.norm == "pre" else stream,
    }
    for (name, inner, output, _), norm in zip(sublayers[index], norms, strict=True):
        if inner is not None:
            passing[name + (".inner" if name == "feed_forward" else ".context")] = inner(passed)
        passing |= {f"{name}.output": passed[output][1], f"{name}.norm": passed[norm][1]}
    if index == 0:
        passing["embedding"] = _embedding(transformer, read[0 if encodes else 1], encodes)
    position = followed.position
    shown = slice(None) if position is None else slice(position, position + 1)

    def parameter(name: str) -> NDArray[np.float32]:
        last = name.startswith(("encoder_norm", "decoder_norm"))
        return to_array(
            transformer.get_parameter(name if last else name.replace("_norm", "_residual.norm"))
        )

    tensors = {name: to_array(passing[name][0, shown]) for name in captured(config, followed)}
    return tensors | norm_parameters(config, followed, parameter)


def _embedding(transformer: Transformer, tokens: Tensor, encodes: bool) -> Tensor:
    config = transformer.config
    table = (
        transformer.source_embedding
        if encodes and not config.tied_embeddings
        else transformer.embedding
    )
    x: Tensor = table(tokens) * (math.sqrt(config.d_model) if config.scale_embeddings else 1)
    if config.zero_start_embedding and not encodes:
        x[:, 0] = 0
    return x


class _Part(NamedTuple):
    """A sublayer: its name, its inner tensor (None for none), the module that returns its output,
    its residual."""

    name: str
    inner: Callable[[Passed], Tensor] | None
    output: nn.Module
    residual: Sublayer


def _sublayers(layer: EncoderLayer | DecoderLayer) -> list[_Part]:
    def attention(name: str, output: nn.Module, residual: Sublayer) -> _Part:
        return _Part(name, lambda passed: passed[output][0], output, residual)

    network = layer.feed_forward
    last = _Part(
        "feed_forward",
        lambda passed: passed[network.inner][1],
        network.outer,
        layer.feed_forward_residual,
    )
    if isinstance(layer, EncoderLayer):
        return [attention("self", layer.self_attention.output, layer.attention_residual), last]
    cross = attention("cross", layer.cross_attention.output, layer.cross_residual)
    if layer.recurrence is not None:
        return [_Part("self", None, layer.recurrence, layer.self_residual), cross, last]
    return [attention("self", layer.self_attention.output, layer.self_residual), cross, last]


def _vectors(attention: MultiHeadAttention, passed: Passed) -> tuple[Tensor, Tensor, Tensor]:
    """Returns queries (H, T, D), keys and values (H, S, D)."""
    query, key, value = (
        attention.split(passed[part][1])[0].float()
        for part in (attention.query, attention.key, attention.value)
    )
    return query, key, value


def _weights(
    attentions: Sequence[MultiHeadAttention], passed: Passed, bias: Tensor | None = None
) -> NDArray[np.float32]:
    """Returns the weights of several layers (L, H, T, S)."""
    return np.stack(
        [
            to_array(attention_weights(*_vectors(attention, passed)[:2], bias))
            for attention in attentions
        ]
    )


def _head_vectors(transformer: Transformer, head: Head, passed: Passed) -> HeadVectors:
    kind, layer, number = head
    block = (transformer.encoder if kind == "encoder" else transformer.decoder)[layer]
    attention = cast(
        "MultiHeadAttention", block.cross_attention if kind == "cross" else block.self_attention
    )
    return HeadVectors(*(to_array(vectors[number]) for vectors in _vectors(attention, passed)))
