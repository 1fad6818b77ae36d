"""Label-smoothed cross-entropy (the paper, section 5.4) over the positions that are not padding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from model.transformer import Transformer
from training.data.batches import PADDING, Batch

LabelLoss = Callable[[Transformer, Tensor, Tensor, float], Tensor]
"""`label_loss`, or a compiled form of it."""


def label_loss(model: Transformer, features: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Returns the mean loss in nats of the labels (B, T) that are not padding, from features (B, T,
    d_model)."""
    logits = model.logits(features).flatten(0, 1).float()  # (B * T, V)
    return functional.cross_entropy(
        logits, labels.flatten(), label_smoothing=smoothing, ignore_index=PADDING
    )


def batch_loss(
    model: Transformer,
    batch: Batch,
    smoothing: float,
    loss: LabelLoss = label_loss,
    *,
    hidden_ends: float = 0.0,
) -> Tensor:
    """Returns the mean loss per target token of teacher-forced decoding of `batch`, in nats,
    without waiting for the device. `hidden_ends` is the probability that the encoder cannot attend
    to a sentence's first token, and likewise its last."""
    mask, source = batch.source != PADDING, batch.source.clamp(min=0)
    visible = mask if hidden_ends == 0.0 else mask & ~_hidden(mask, hidden_ends)
    # (B, T, d_model)
    features = model.decode(model.encode(source, visible), mask, batch.target[:, :-1].clamp(min=0))
    return loss(model, features, batch.target[:, 1:], smoothing)


def _hidden(mask: Tensor, share: float) -> Tensor:
    """Returns a mask (B, S) of the first and last tokens, each with probability `share`."""
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
