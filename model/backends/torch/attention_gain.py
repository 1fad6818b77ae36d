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
    mask = source != model.config.pad_id
    memory = model.encode(source, mask)
    before = _loss(model, memory, mask, target)
    for name, part in model.named_modules():
        if isinstance(part, MultiHeadAttention):
            kind = "cross" if name.endswith(".cross_attention") else name.split(".")[0]
            # Queries of zero make all logits zero; masked positions stay masked.
            hook = part.query.register_forward_hook(_zeros)
            try:
                seen = model.encode(source, mask) if kind == "encoder" else memory
                found[kind].append(_loss(model, seen, mask, target) - before)
            finally:
                hook.remove()
    return found


def _zeros(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
    return torch.zeros_like(output)


def _loss(model: Transformer, memory: Tensor, mask: Tensor, target: Tensor) -> float:
    """Mean loss of the tokens of `target` after the first, from memory (B, S, d_model) and its mask (B, S)."""
    features = model.decode(memory, mask, target[:, :-1])  # (B, T - 1, d_model)
    labels = target[:, 1:]
    written = labels != model.config.pad_id  # (B, T - 1)
    return float(functional.cross_entropy(model.logits(features[written]).float(), labels[written]))
