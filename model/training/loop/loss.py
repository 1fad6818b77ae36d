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
    model: Transformer, batch: Batch, smoothing: float, projection: Projection = projection_loss
) -> Tensor:
    """Mean loss per target token, in nats, of teacher-forced decoding of `batch`. The host waits for nothing in it."""
    mask = batch.source != model.config.pad_id
    features = model.decode(model.encode(batch.source, mask), mask, batch.target)  # (B, T, d_model)
    return projection(model, features, batch.rows, batch.labels, smoothing)


@torch.no_grad()
def perplexity_loss(model: Transformer, batches: list[Batch]) -> float:
    """Mean unsmoothed loss per target token, in nats, over `batches`."""
    total = tokens = 0.0
    for batch in batches:
        total += float(batch_loss(model, batch, 0.0)) * batch.tokens
        tokens += batch.tokens
    return total / max(1.0, tokens)
