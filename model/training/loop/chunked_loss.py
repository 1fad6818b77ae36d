"""Output projection and label-smoothed loss in chunks of positions, without storing the logits (N, V).

On a CPU these logits would be the largest array of a step. The gradients are computed together with the loss, chunk by
chunk, while the logits are in the processor's cache. N positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from model.training.data.batch import IGNORED
from model.training.loop.loss import projection_loss
from model.transformer import Transformer

_CHUNK_POSITIONS = 256
"""Positions of one chunk: 12 MB of logits for 12,000 pieces."""


def chunked_projection_loss(
    model: Transformer, features: Tensor, positions: Tensor, labels: Tensor, smoothing: float
) -> Tensor:
    """Returns the same as `projection_loss`, computed in chunks.

    Uses `projection_loss` itself without gradients and for models with an output bias, which the chunks do not support.
    """
    if model.config.output_bias or not torch.is_grad_enabled():
        return projection_loss(model, features, positions, labels, smoothing)
    weight = model.embedding.weight if model.config.tied_embeddings else model.projection.weight
    chosen = features.flatten(0, 1)[positions]
    return cast("Tensor", _ChunkedLoss.apply(chosen, weight, labels, smoothing))  # type: ignore[no-untyped-call]


class _ChunkedLoss(torch.autograd.Function):
    """Mean loss over the labels that are not IGNORED, from features (N, d_model), weight (V, d_model) and labels (N,)."""

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
            for at in range(0, len(labels), _CHUNK_POSITIONS):
                part = slice(at, at + _CHUNK_POSITIONS)
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
    """Returns the label-smoothed losses (N,) of logits (N, V) and their gradient (N, V) with respect to the logits.

    The target distribution has 1 - smoothing on the label plus smoothing / V on every piece.
    """
    scores = torch.log_softmax(logits.float(), dim=1)
    picked = scores.gather(1, labels[:, None])
    losses = -(1.0 - smoothing) * picked.squeeze(1) - smoothing * scores.mean(1)
    gradient = scores.exp_().sub_(smoothing / scores.shape[1])
    gradient.scatter_add_(1, labels[:, None], torch.full_like(picked, smoothing - 1.0))
    return losses, gradient
