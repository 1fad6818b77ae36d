"""Label-smoothed cross-entropy (section 5.4) over the positions that are not padding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from model.training.data.batches import IGNORED, Batch
from model.transformer import Transformer

Projection = Callable[[Transformer, Tensor, Tensor, Tensor, float], Tensor]
"""`projection_loss`, or a compiled form of it."""


def projection_loss(model: Transformer, features: Tensor, rows: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Mean loss of `labels` (N,) at the flat positions `rows` (N,) of features (B, T, d_model). The projection is the
    largest product of all: no padding enters it."""
    logits = model.logits(features.flatten(0, 1)[rows])  # (N, V)
    return functional.cross_entropy(logits.float(), labels, label_smoothing=smoothing, ignore_index=IGNORED)


def batch_loss(
    model: Transformer, batch: Batch, smoothing: float, projection: Projection = projection_loss, *, hidden_ends: float = 0.0
) -> Tensor:
    """Mean loss per target token, in nats, of teacher-forced decoding of `batch`. The host waits for nothing in it.
    `hidden_ends` is the chance that the encoder's heads do not see a sentence's first position, and likewise its last."""
    mask = batch.source != model.config.pad_id
    visible = mask if hidden_ends == 0.0 else mask & ~_hidden(mask, hidden_ends)
    features = model.decode(model.encode(batch.source, visible), mask, batch.target)  # (B, T, d_model)
    return projection(model, features, batch.rows, batch.labels, smoothing)


def _hidden(mask: Tensor, share: float) -> Tensor:
    """First and last tokens of mask (B, S), each with chance `share`: (B, S). Words between them stay visible."""
    ends = torch.zeros_like(mask)
    ends[:, 0] = torch.rand(len(mask), device=mask.device) < share
    last = torch.rand(len(mask), 1, device=mask.device) < share
    place = torch.arange(mask.shape[1], device=mask.device)
    return ends | (last & (place == mask.sum(1, keepdim=True) - 1))


@torch.no_grad()
def perplexity_loss(model: Transformer, batches: list[Batch]) -> float:
    """Mean unsmoothed loss per target token, in nats, over `batches`."""
    total = tokens = 0.0
    for batch in batches:
        total += float(batch_loss(model, batch, 0.0)) * batch.tokens
        tokens += batch.tokens
    return total / max(1.0, tokens)
