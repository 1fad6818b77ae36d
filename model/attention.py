"""Multi-head attention ("Attention Is All You Need", section 3.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


def attention_weights(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(D) + bias), equation 1 without V: query (B, H, T, D), key (B, H, S, D)
    -> (B, H, T, S), in float32 like those of fused kernels."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (B, H, T, S)
    if bias is not None:
        scores = scores + bias
    return torch.softmax(scores, dim=-1, dtype=torch.float32)


class MultiHeadAttention(nn.Module):
    """H attention heads of width D = d_model / H (section 3.2.2).

    `bias` is added to the scores before the softmax: 0 where a query may attend, -inf where it may
    not, broadcastable to (B, H, T, S). `gate` scales the output of each head, broadcastable to (B,
    H): 0 masks a head.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def split(self, x: Tensor) -> Tensor:
        """Splits the features into heads: (B, T, d_model) -> (B, H, T, D)."""
        # (B, T, H, D) -> (B, H, T, D)
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def queries(self, x: Tensor) -> Tensor:
        """Projects queries: x (B, T, d_model) -> (B, H, T, D)."""
        return self.split(self.query(x))

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Projects keys and values: memory (B, S, d_model) -> two of (B, H, S, D)."""
        return self.split(self.key(memory)), self.split(self.value(memory))

    def forward(self, x: Tensor, bias: Tensor | None, gate: Tensor | None = None) -> Tensor:
        """Self-attention: x (B, T, d_model) -> (B, T, d_model)."""
        return self.attend(self.queries(x), *self.keys_values(x), bias, gate)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        gate: Tensor | None = None,
    ) -> Tensor:
        """query (B, H, T, D), key and value (B, H, S, D) -> (B, T, d_model)."""
        # On a CPU the backward pass of the fused kernel takes ten times as long as that of these
        # products. In float32, because oneDNN compiles code for each of the many shapes of products
        # in bfloat16.
        if self.training and query.device.type == "cpu":
            query, key, value = (
                x.to(torch.float32, memory_format=torch.contiguous_format)
                for x in (query, key, value)
            )
            return self.merge(attention_weights(query, key, bias) @ value, gate)
        # (B, H, T, D)
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.merge(context, gate)

    def merge(self, context: Tensor, gate: Tensor | None) -> Tensor:
        """Concatenates the heads and projects: (B, H, T, D) -> (B, T, d_model)."""
        if gate is not None:
            context = context * gate.view(gate.shape[0], -1, 1, 1).to(context.dtype)
        merged = context.transpose(1, 2).flatten(2)  # (B, T, H * D)
        output: Tensor = self.output(merged)
        return output
