"""Label-smoothed cross-entropy (the paper, section 5.4) over the positions that are not padding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from model.training.data.batch import IGNORED, Batch
from model.transformer import Transformer

Projection = Callable[[Transformer, Tensor, Tensor, Tensor, float], Tensor]
"""`projection_loss`, or a compiled form of it."""


def projection_loss(
    model: Transformer, features: Tensor, positions: Tensor, labels: Tensor, smoothing: float
) -> Tensor:
    """Returns the mean loss of `labels` (N,) at the flat `positions` (N,) of features (B, T, d_model), in nats.

    Only these positions enter the output projection, which is the largest matrix product of the model.
    """
    logits = model.logits(features.flatten(0, 1)[positions])  # (N, V)
    return functional.cross_entropy(logits.float(), labels, label_smoothing=smoothing, ignore_index=IGNORED)


def batch_loss(
    model: Transformer,
    batch: Batch,
    smoothing: float,
    projection: Projection = projection_loss,
    *,
    hidden_ends: float = 0.0,
) -> Tensor:
    """Returns the mean loss per target token of teacher-forced decoding of `batch`, in nats. The host does not wait for it.

    `hidden_ends` is the probability that the encoder cannot attend to a sentence's first token, and likewise its last.
    """
    mask = batch.source != model.config.pad_id
    visible = mask if hidden_ends == 0.0 else mask & ~_hidden(mask, hidden_ends)
    features = model.decode(model.encode(batch.source, visible), mask, batch.target)  # (B, T, d_model)
    return projection(model, features, batch.label_positions, batch.labels, smoothing)


def _hidden(mask: Tensor, share: float) -> Tensor:
    """Returns a mask (B, S) of the first and last tokens of `mask` (B, S), each with probability `share`."""
    ends = torch.zeros_like(mask)
    ends[:, 0] = torch.rand(len(mask), device=mask.device) < share
    last = torch.rand(len(mask), 1, device=mask.device) < share
    position = torch.arange(mask.shape[1], device=mask.device)
    return ends | (last & (position == mask.sum(1, keepdim=True) - 1))


@torch.no_grad()
def perplexity_loss(model: Transformer, batches: list[Batch]) -> float:
    """Returns the mean loss per target token over `batches` without label smoothing, in nats."""
    total = tokens = 0.0
    for batch in batches:
        total += float(batch_loss(model, batch, 0.0)) * batch.tokens
        tokens += batch.tokens
    return total / max(1.0, tokens)
