"""The kernels of a decode step in PyTorch, where Triton cannot be used: they copy what they read, all positions of all slots."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from model.backends.cuda.fused_step import SlotKernels


def attend(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
    """See kernels.attend."""
    rows, heads, room, width = keys.shape
    time = torch.arange(room, device=keys.device)
    keys, values = (stored[places.expand(-1, room), :, time].transpose(1, 2) for stored in (keys, values))
    mask = (time < lengths[:, None])[:, None, None]  # (R, 1, 1, T)
    context = functional.scaled_dot_product_attention(query.view(rows, heads, 1, width), keys, values, attn_mask=mask)
    return context.reshape(rows, heads * width)


def attend_self(qkv: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
    """See kernels.attend_self."""
    rows, heads, _, width = keys.shape
    query, key, value = qkv.chunk(3, dim=1)
    every = torch.arange(rows, device=keys.device)
    keys[every, :, lengths] = key.reshape(rows, heads, width)
    values[every, :, lengths] = value.reshape(rows, heads, width)
    return attend(query, keys, values, lengths + 1, places)


def add_norm(x: Tensor, added: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """See kernels.add_norm."""
    total = x + added
    return total, functional.layer_norm(total, x.shape[1:], weight, bias, epsilon)


def choose(logits: Tensor, forced: Tensor, barred: Tensor, tokens: Tensor) -> Tensor:
    """See kernels.choose."""
    scores = torch.log_softmax(logits.float(), dim=-1)
    best, ids = (scores + barred).max(dim=-1)
    tokens.copy_(ids)
    return torch.stack([ids.double(), best.double(), scores.gather(1, forced[:, None])[:, 0].double()], dim=1)


KERNELS = SlotKernels("torch", attend_self, attend, add_norm, choose)
