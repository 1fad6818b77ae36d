"""The decode step of a Transformer in few kernels. CUDA graphs capture it if Triton is available."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.backends.cuda.static_cache import StaticCache
from model.layers import DecoderLayer
from model.transformer import Transformer

AttendSelf = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
AddNorm = Callable[[Tensor, Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]
Choose = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class SlotKernels:
    """The kernels of a step beside matrix products; kernels.py documents each."""

    attend_self: AttendSelf
    attend: Attend
    add_norm: AddNorm
    choose: Choose


class FusedStep:
    """A step of the first R slots of `cache`.

    Queries, keys and values come from one product, a residual sum and its norm from one kernel, and attention reads
    only each row's own positions.
    """

    def __init__(self, transformer: Transformer, cache: StaticCache, kernels: SlotKernels) -> None:
        config = transformer.config
        self._transformer, self._cache, self._kernels = transformer, cache, kernels
        self._layers = [cast(DecoderLayer, layer) for layer in transformer.decoder]
        self._pre = config.norm == "pre"
        self._relu = config.activation == "relu"
        with torch.no_grad():
            self._joined = [_joined(layer.self_attention) for layer in self._layers]
        norms = [
            residual.norm
            for layer in self._layers
            for residual in (layer.self_residual, layer.cross_residual, layer.feed_forward_residual)
        ]
        # In pre-norm models the norm after a sum is that of the next sublayer.
        self._norms = [*norms[1:], transformer.decoder_norm] if self._pre else norms
        self._first = norms[0]

    def logits(self, tokens: Tensor) -> Tensor:
        """tokens (R,) -> logits (R, V). The lengths of active rows grow by one."""
        cache, kernels = self._cache, self._kernels
        rows = len(tokens)
        x = self._transformer.embed_step(tokens, cache.live[:rows])  # (R, d_model)
        entered = self._first(x) if self._pre else x
        norms = iter(self._norms)
        for index, (layer, (weight, bias)) in enumerate(zip(self._layers, self._joined, strict=True)):
            qkv = functional.linear(entered, weight, bias)  # (R, 3 d_model)
            context = kernels.attend_self(
                qkv, cache.self_keys[index, :rows], cache.self_values[index, :rows], cache.live
            )
            x, entered = self._residual(x, layer.self_attention.output(context), next(norms))
            query = layer.cross_attention.query(entered)
            keys, values = cache.cross_keys[index, :rows], cache.cross_values[index, :rows]
            context = kernels.attend(query, keys, values, cache.sources)
            x, entered = self._residual(x, layer.cross_attention.output(context), next(norms))
            x, entered = self._residual(x, self._feed_forward(layer, entered), next(norms))
        cache.close_step()
        return self._transformer.logits(entered)

    def choose(self, logits: Tensor, forced: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Selects the next tokens: see kernels.choose."""
        return self._kernels.choose(logits, forced)

    def _residual(self, x: Tensor, output: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Returns the residual stream and the input of the next sublayer."""
        total, normed = self._kernels.add_norm(x, output, norm.weight, norm.bias, norm.eps)
        return (total, normed) if self._pre else (normed, normed)

    def _feed_forward(self, layer: DecoderLayer, x: Tensor) -> Tensor:
        inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
        if self._relu:
            hidden = torch._addmm_activation(inner.bias, x, inner.weight.t())
        else:
            hidden = layer.feed_forward.activation(inner(x))
        output: Tensor = outer(hidden)
        return output


def _joined(attention: nn.Module) -> tuple[Tensor, Tensor]:
    """Concatenates query, key and value: weight (3 d_model, d_model), bias (3 d_model,)."""
    parts = [cast(nn.Linear, getattr(attention, name)) for name in ("query", "key", "value")]
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
