"""QK-clip (Kimi K2, 2025, section 2.1): no attention logit grows past a bound, head by head.

Weights of queries and keys grow without limit under updates of a fixed size; the softmax then looks at one position alone
and passes no gradient. B batch, S source length, T target length, H heads, D head width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from model.attention import MultiHeadAttention
from model.training.data.batches import Batch
from model.training.loop.hardware import plain
from model.transformer import Transformer

_ROWS = 64
"""Sentences of a batch on which logits are measured."""


class QKClip:
    """Scales the projections of queries and keys of every head whose largest logit exceeds `bound`, by sqrt(bound / logit)
    each, so that the logit becomes `bound`."""

    def __init__(self, model: Transformer, bound: float) -> None:
        self._model, self._bound = model, bound
        self._attentions = {name: part for name, part in model.named_modules() if isinstance(part, MultiHeadAttention)}

    @torch.no_grad()
    def clip(self, batch: Batch) -> float:
        """Measure the logits on the first rows of `batch` and scale the heads; returns the largest logit before."""
        logits = self.largest_logits(batch)
        for name, largest in logits.items():
            factors = (self._bound / largest.clamp(min=self._bound)).sqrt()  # (H,), 1 where the bound is kept
            attention = self._attentions[name]
            for projection in (attention.query, attention.key):
                width = projection.out_features // attention.heads
                rows = factors.repeat_interleave(width)  # (H * D,)
                projection.weight.mul_(rows[:, None])
                projection.bias.mul_(rows)
        return max(float(largest.max()) for largest in logits.values())

    @torch.no_grad()
    def largest_logits(self, batch: Batch) -> dict[str, Tensor]:
        """For every attention, by its name in the model, the largest absolute logit of each head (H,) over all pairs of
        positions that are not padding; the decoder's future is not left out."""
        source, target = batch.source[:_ROWS], batch.target[:_ROWS]
        read, written = source != self._model.config.pad_id, target != self._model.config.pad_id
        with plain(), self._projected() as heads:
            self._model.decode(self._model.encode(source, read), read, target)
        found: dict[str, Tensor] = {}
        for name in self._attentions:
            queries = read if name.startswith("encoder.") else written
            keys = queries if name.endswith(".self_attention") else read
            query = self._attentions[name].split(heads[f"{name}.query"] * queries[..., None])  # (B, H, T, D)
            key = self._attentions[name].split(heads[f"{name}.key"] * keys[..., None])  # (B, H, S, D)
            logits = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # 0 where one of the two is padding
            found[name] = logits.abs().amax((0, 2, 3)).float()
        return found

    @contextmanager
    def _projected(self) -> Iterator[dict[str, Tensor]]:
        """What the projections of queries and keys give while the context lasts, by their names in the model."""
        found: dict[str, Tensor] = {}

        def keep(name: str, projection: nn.Linear) -> None:
            def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
                found[name] = output

            stack.callback(projection.register_forward_hook(hook).remove)

        with ExitStack() as stack:
            for name, attention in self._attentions.items():
                keep(f"{name}.query", attention.query)
                keep(f"{name}.key", attention.key)
            yield found
