"""QK-clip (Kimi K2, 2025, section 2.1): limits the attention logits of each head. Updates of a
fixed size make the weights of queries and keys grow without limit, until the softmax puts all
weight on one position and passes no gradient. B batch, S source length, T target length, H heads, D
head width."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from model.attention import MultiHeadAttention
from model.backends.torch.attention_maps import recorded
from model.transformer import Transformer
from training.data.batches import PADDING, Batch
from training.loop.hardware import without_compilation

_SENTENCES = 64
"""Sentences of a batch on which logits are measured."""


class QKClip:
    """Scales the query and the key projection of every head whose largest logit exceeds `bound` by
    sqrt(bound / logit) each, so that this logit becomes `bound`."""

    def __init__(self, model: Transformer, bound: float) -> None:
        self._model, self._bound = model, bound
        self._attentions = {
            name: part
            for name, part in model.named_modules()
            if isinstance(part, MultiHeadAttention)
        }

    @torch.no_grad()
    def clip(self, batch: Batch) -> float:
        """Measures the logits on the first sentences of `batch` and scales the heads. Returns the
        largest logit before."""
        logits = self.largest_logits(batch)
        for name, largest in logits.items():
            # (H,), 1 within the bound
            factors = (self._bound / largest.clamp(min=self._bound)).sqrt()
            attention = self._attentions[name]
            for projection in (attention.query, attention.key):
                width = projection.out_features // attention.heads
                rows = factors.repeat_interleave(width)  # (H * D,)
                projection.weight.mul_(rows[:, None])
                projection.bias.mul_(rows)
        return max(float(largest.max()) for largest in logits.values())

    @torch.no_grad()
    def largest_logits(self, batch: Batch) -> dict[str, Tensor]:
        """Returns the largest absolute logit of each head (H,) by the name of the attention. All
        pairs of positions that are not padding count, in the decoder also later positions."""
        source, target = batch.source[:_SENTENCES], batch.target[:_SENTENCES, :-1]
        source_mask, target_mask = source != PADDING, target != PADDING
        source, target = source.clamp(min=0), target.clamp(min=0)
        projections = [
            part
            for attention in self._attentions.values()
            for part in (attention.query, attention.key)
        ]
        with without_compilation(), recorded(projections) as passed:
            self._model.decode(self._model.encode(source, source_mask), source_mask, target)
        largest: dict[str, Tensor] = {}
        for name, attention in self._attentions.items():
            queries = source_mask if name.startswith("encoder.") else target_mask
            keys = queries if name.endswith(".self_attention") else source_mask
            query = attention.split(passed[attention.query][1] * queries[..., None])  # (B, H, T, D)
            key = attention.split(passed[attention.key][1] * keys[..., None])  # (B, H, S, D)
            # 0 if either position is padding
            logits = query.float() @ key.float().mT / math.sqrt(query.shape[-1])
            largest[name] = logits.abs().amax((0, 2, 3)).float()
        return largest
