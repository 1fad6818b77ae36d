"""Label-smoothed cross-entropy (section 5.4) over the positions that are not padding."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from model.training.batches import Batch
from model.transformer import Transformer


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> Tensor:
    """Mean loss per target token, in nats, of teacher-forced decoding of `batch`."""
    pad = model.config.pad_id
    source, target = batch.source, batch.target
    mask = source != pad
    features = model.decode(model.encode(source, mask), mask, target[:, :-1])  # (B, T, d_model)
    labels = target[:, 1:].flatten()
    # The projection is the largest product of all: (almost) no padding enters it. N is rounded up so that few shapes occur.
    real = torch.nonzero(labels != pad).squeeze(1)
    rows = torch.cat([real, real.new_zeros(-len(real) % 512)])
    labels = labels[rows]
    labels[len(real) :] = -100
    logits = model.logits(features.flatten(0, 1)[rows])  # (N, V)
    return functional.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


@torch.no_grad()
def perplexity_loss(model: Transformer, batches: list[Batch]) -> float:
    """Mean unsmoothed loss per target token, in nats, over `batches`."""
    total = tokens = 0.0
    for batch in batches:
        total += float(batch_loss(model, batch, 0.0)) * batch.tokens
        tokens += batch.tokens
    return total / max(1.0, tokens)
