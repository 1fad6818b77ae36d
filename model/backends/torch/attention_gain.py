"""Attention gain: how much the loss grows if one layer attends to all positions equally.

Head health cannot tell a useful broad head from one that was never trained. A layer whose gain is near zero translates
without its own attention. B batch, S source length, T target length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.attention import MultiHeadAttention
from model.transformer import Transformer


@torch.no_grad()
def attention_gain(model: Transformer, source: Tensor, target: Tensor) -> dict[str, list[float]]:
    """Returns the growth of the mean loss per target token, in nats, for each layer of `encoder`, `decoder` and `cross`.

    `model` is in evaluation mode; source (B, S) and decoder input target (B, T) are padded at the end.
    """
    found: dict[str, list[float]] = {"encoder": [], "decoder": [], "cross": []}
    before = _loss(model, source, target)
    for name, part in model.named_modules():
        if isinstance(part, MultiHeadAttention):
            kind = "cross" if name.endswith(".cross_attention") else name.split(".")[0]
            # Queries of zero make all logits zero; masked positions stay masked.
            hook = part.query.register_forward_hook(_zeros)
            try:
                found[kind].append(_loss(model, source, target) - before)
            finally:
                hook.remove()
    return found


def _zeros(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
    return torch.zeros_like(output)


def _loss(model: Transformer, source: Tensor, target: Tensor) -> float:
    """Mean loss of the tokens of `target` after the first."""
    pad = model.config.pad_id
    mask = source != pad
    features = model.decode(model.encode(source, mask), mask, target[:, :-1])  # (B, T - 1, d_model)
    labels = target[:, 1:]
    written = labels != pad  # (B, T - 1)
    return float(functional.cross_entropy(model.logits(features[written]).float(), labels[written]))
