"""Projection and label-smoothed loss in chunks of positions: no logits (N, V) are stored, on a CPU the largest array of a step.

The gradients are computed with the loss, chunk by chunk, while the logits lie in the cache. N positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from model.training.data.batches import IGNORED
from model.training.loop.loss import projection_loss
from model.transformer import Transformer

_ROWS = 256
"""Positions of one chunk: 12 MB of logits for 12,000 pieces."""


def chunked_projection_loss(model: Transformer, features: Tensor, rows: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """`projection_loss` in chunks; for models with a bias of the output, which it does not know, `projection_loss` itself."""
    if model.config.output_bias or not torch.is_grad_enabled():
        return projection_loss(model, features, rows, labels, smoothing)
    weight = model.embedding.weight if model.config.tied_embeddings else model.projection.weight
    chosen = features.flatten(0, 1)[rows]
    return cast("Tensor", _ChunkedLoss.apply(chosen, weight, labels, smoothing))  # type: ignore[no-untyped-call]


class _ChunkedLoss(torch.autograd.Function):
    """features (N, d_model), weight (V, d_model), labels (N,) -> mean loss over the labels that are not IGNORED."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        kind = features.device.type
        narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
        with torch.autocast(kind, enabled=False):
            inputs, outputs = features.to(narrow), weight.to(narrow)
            counted = (labels != IGNORED).float()
            scale = 1.0 / counted.sum().clamp(min=1.0)
            loss = torch.zeros((), device=features.device)
            to_features, to_weight = torch.empty_like(inputs), torch.zeros_like(weight)
            for at in range(0, len(labels), _ROWS):
                part = slice(at, at + _ROWS)
                losses, gradient = _smoothed(inputs[part] @ outputs.T, labels[part].clamp(min=0), smoothing)
                factors = counted[part] * scale
                loss += losses @ factors
                narrowed = gradient.mul_(factors[:, None]).to(narrow)
                torch.mm(narrowed, outputs, out=to_features[part])
                if narrow == weight.dtype:
                    to_weight.addmm_(narrowed.T, inputs[part])
                else:
                    to_weight += narrowed.T @ inputs[part]
        ctx.save_for_backward(to_features.to(features.dtype), to_weight)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        to_features, to_weight = ctx.saved_tensors
        return to_features * gradients[0], to_weight * gradients[0], None, None


def _smoothed(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Label-smoothed losses (N,) of logits (N, V) and the losses' gradient (N, V) with respect to them. The target
    distribution is 1 - smoothing on the label and smoothing / V on every piece."""
    scores = torch.log_softmax(logits.float(), dim=1)
    picked = scores.gather(1, labels[:, None])
    losses = -(1.0 - smoothing) * picked.squeeze(1) - smoothing * scores.mean(1)
    gradient = scores.exp_().sub_(smoothing / scores.shape[1])
    gradient.scatter_add_(1, labels[:, None], torch.full_like(picked, smoothing - 1.0))
    return losses, gradient
