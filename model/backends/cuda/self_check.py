"""Self-check of the CUDA backend: replayed steps must agree with plain PyTorch before it serves
requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from model.backends.cuda.graphs import CAPTURE_AFTER, GraphedBackend
from model.backends.torch.backend import TorchBackend
from model.kv_cache import KVCache
from model.search.backend_interface import StepOutput
from model.transformer import Transformer

_FACTOR, _FLOOR = 3.0, 1e-3
"""Log-probabilities may be _FACTOR times as far from those in float32 as plain steps in the same
precision are, plus _FLOOR for the order of sums."""
_CANDIDATES = (1, 8)
"""Of greedy and of beam search."""
_PART = 1 << 26
"""Bytes of a weight in float32 that are in memory at once."""


@torch.inference_mode()
def disagreement(backend: GraphedBackend) -> str | None:
    """Decodes a few tokens with `backend`, with plain steps and with plain steps in float32.
    Returns None if the backend's log-probabilities are as exact as the plain ones, else a sentence
    about the difference."""
    slots = [0, 1, 2][: backend.slots]
    transformer, config = backend.transformer, backend.transformer.config
    compared = [backend, TorchBackend(transformer, len(slots))]
    if next(transformer.parameters()).dtype != torch.float32:
        compared.append(_Float32Backend(transformer, len(slots)))
    sources = [[token % config.vocab_size for token in range(1, 6 + 3 * slot)] for slot in slots]
    for compared_backend in compared:
        compared_backend.prefill(sources, slots)
    errors = np.zeros(2)  # of the backend and of plain steps
    for candidates in _CANDIDATES:
        for step in range(CAPTURE_AFTER + 1):
            tokens = [(7 * step + slot) % config.vocab_size for slot in slots]
            scores = [
                compared_backend.step(slots, tokens, candidates, tokens).scores[:, 0]
                for compared_backend in compared
            ]
            errors = np.maximum(errors, [np.abs(own - scores[-1]).max() for own in scores[:2]])
        for compared_backend in compared:
            compared_backend.reorder(slots[1:], slots[:-1])
    backend.free(slots)
    if not backend.captured:
        return "No step was captured."
    # NaN if one of them is
    if errors[0] <= _FACTOR * errors[1] + _FLOOR:
        return None
    return f"Replayed steps differ from float32 by {errors[0]:.3g}, plain ones by {errors[1]:.3g}."


class _Float32Backend(TorchBackend):
    """Plain steps in float32 of a model with weights in another type, converted some rows at a time
    when they are used: a copy of a large model does not fit beside it."""

    def __init__(self, transformer: Transformer, slots: int) -> None:
        super().__init__(transformer, slots)
        self.cache = KVCache(transformer.config, slots, torch.float32, self.device)

    def prefill(self, *arguments: Any) -> None:
        with _InFloat32():
            super().prefill(*arguments)

    def step(self, *arguments: Any) -> StepOutput:
        with _InFloat32():
            return super().step(*arguments)


class _InFloat32(TorchFunctionMode):
    """Converts weights, and what is computed from them, to float32."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is functional.linear:
            function = _linear
        named = dict(kwargs or {})
        if function is functional.layer_norm:
            args = args[0].float(), *args[1:]
            named |= {name: named[name].float() for name in ("weight", "bias")}
        output = function(*args, **named)
        return output.float() if function is functional.embedding else output


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    parts = torch.split(weight, max(1, _PART // (4 * weight.shape[1])))
    product = torch.cat([functional.linear(x, part.float()) for part in parts], dim=-1)
    return product if bias is None else product + bias.float()
