"""The decode step of a Transformer in few kernels, which CUDA graphs capture, and these kernels in
PyTorch for machines without Triton."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.backends.cuda.static_cache import StaticCache
from model.layers import DecoderLayer
from model.transformer import HeadGates, Transformer

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
AddNorm = Callable[[Tensor, Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]
Choose = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_ALIGNED = 64
"""The projection has a multiple of this number of rows: other products run without tensor cores."""


@dataclass(frozen=True, slots=True)
class SlotKernels:
    """The kernels of a step beside matrix products (kernels.py); `name` is "triton" or "torch"."""

    name: str
    attend_self: Attend
    attend: Attend
    add_norm: AddNorm
    choose: Choose


class FusedStep:
    """A step of all R slots of `cache`. Queries, keys and values come from one product, a residual
    sum and its norm from one kernel, and attention reads only each row's own positions."""

    def __init__(self, transformer: Transformer, cache: StaticCache, kernels: SlotKernels) -> None:
        config = transformer.config
        self._transformer, self._cache, self.kernels = transformer, cache, kernels
        self._layers = [cast("DecoderLayer", layer) for layer in transformer.decoder]
        self._pre = config.norm == "pre"
        self._relu = config.activation == "relu"
        with torch.no_grad():
            self._joined = [
                () if layer.recurrence else _joined(layer.self_attention) for layer in self._layers
            ]
            self._projection, self._output_bias = _padded_projection(transformer)
        norms = [
            residual.norm
            for layer in self._layers
            for residual in (layer.self_residual, layer.cross_residual, layer.feed_forward_residual)
        ]
        # In pre-norm models the norm after a sum is that of the next sublayer.
        self._norms = [*norms[1:], transformer.decoder_norm] if self._pre else norms
        self._first = norms[0]

    def logits(self, tokens: Tensor, gates: HeadGates | None = None) -> Tensor:
        """tokens (R,) -> logits (R, V). The lengths of active rows grow by one."""
        cache, kernels = self._cache, self.kernels
        x = self._transformer.embed_step(tokens, cache.live)  # (R, d_model)
        entered = self._first(x) if self._pre else x
        norms = iter(self._norms)
        for index, (layer, joined) in enumerate(zip(self._layers, self._joined, strict=True)):
            if layer.recurrence is not None:
                output = layer.recurrence.step(entered[:, None], cache, index)[:, 0]
            else:
                qkv = functional.linear(entered, *joined)  # (R, 3 d_model)
                keys, values = cache.self_keys[index], cache.self_values[index]
                context = kernels.attend_self(qkv, keys, values, cache.live, cache.places)
                output = layer.self_attention.output(_gated(context, gates, "decoder", index))
            x, entered = self._residual(x, output, next(norms))
            query = layer.cross_attention.query(entered)
            keys, values = cache.cross_keys[index], cache.cross_values[index]
            context = kernels.attend(query, keys, values, cache.sources, cache.origins[:, None])
            output = layer.cross_attention.output(_gated(context, gates, "cross", index))
            x, entered = self._residual(x, output, next(norms))
            x, entered = self._residual(x, self._feed_forward(layer, entered), next(norms))
        cache.close_step()
        vocabulary = self._transformer.config.vocab_size
        return functional.linear(entered, self._projection, self._output_bias)[:, :vocabulary]

    def _residual(self, x: Tensor, output: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Returns the residual stream and the input of the next sublayer."""
        total, normed = self.kernels.add_norm(x, output, norm.weight, norm.bias, norm.eps)
        return (total, normed) if self._pre else (normed, normed)

    def _feed_forward(self, layer: DecoderLayer, x: Tensor) -> Tensor:
        inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
        if self._relu:
            hidden = torch._addmm_activation(inner.bias, x, inner.weight.t())
        else:
            hidden = layer.feed_forward.activation(inner(x))
        output: Tensor = outer(hidden)
        return output


def _gated(context: Tensor, gates: HeadGates | None, kind: str, layer: int) -> Tensor:
    """Scales the output of each head of a layer: context (R, H D)."""
    if gates is None:
        return context
    gate: Tensor = getattr(gates, kind)[:, layer]  # (R, H)
    return (context.view(*gate.shape, -1) * gate[:, :, None]).flatten(1)  # (R, H, D) -> (R, H D)


def _joined(attention: nn.Module) -> tuple[Tensor, Tensor]:
    """Concatenates query, key and value: weight (3 d_model, d_model), bias (3 d_model,)."""
    parts = [cast("nn.Linear", getattr(attention, name)) for name in ("query", "key", "value")]
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])


def _padded_projection(transformer: Transformer) -> tuple[Tensor, Tensor | None]:
    """Returns weight and bias of the output projection with rows of zeros up to a multiple of
    _ALIGNED. The model's own weight becomes a view of it."""
    config = transformer.config
    parameter = (
        transformer.embedding.weight if config.tied_embeddings else transformer.projection.weight
    )
    padding = -config.vocab_size % _ALIGNED
    padded = functional.pad(parameter, (0, 0, 0, padding))
    parameter.data = padded[: config.vocab_size]
    return padded, functional.pad(
        transformer.output_bias, (0, padding)
    ) if config.output_bias else None


def attend(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
    """See kernels.attend."""
    rows, heads, room, width = keys.shape
    time = torch.arange(room, device=keys.device)
    keys, values = (
        stored[places.expand(-1, room), :, time].transpose(1, 2) for stored in (keys, values)
    )
    mask = (time < lengths[:, None])[:, None, None]  # (R, 1, 1, T)
    context = functional.scaled_dot_product_attention(
        query.view(rows, heads, 1, width), keys, values, attn_mask=mask
    )
    return context.reshape(rows, heads * width)


def attend_self(
    qkv: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, places: Tensor
) -> Tensor:
    """See kernels.attend_self."""
    rows, heads, _, width = keys.shape
    query, key, value = qkv.chunk(3, dim=1)
    every = torch.arange(rows, device=keys.device)
    keys[every, :, lengths] = key.reshape(rows, heads, width)
    values[every, :, lengths] = value.reshape(rows, heads, width)
    return attend(query, keys, values, lengths + 1, places)


def add_norm(
    x: Tensor, added: Tensor, weight: Tensor, bias: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """See kernels.add_norm."""
    total = x + added
    return total, functional.layer_norm(total, x.shape[1:], weight, bias, epsilon)


def choose(logits: Tensor, forced: Tensor, barred: Tensor, tokens: Tensor) -> Tensor:
    """See kernels.choose."""
    scores = torch.log_softmax(logits.float(), dim=-1)
    best, ids = (scores + barred).max(dim=-1)
    tokens.copy_(ids)
    return torch.stack(
        [ids.double(), best.double(), scores.gather(1, forced[:, None])[:, 0].double()], dim=1
    )


KERNELS = SlotKernels("torch", attend_self, attend, add_norm, choose)
