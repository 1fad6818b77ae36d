"""Encoder and decoder layers of the Transformer ("Attention Is All You Need", section 3.1).

Shapes: B batch, S source length, T target length, H heads, D head width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.attention import MultiHeadAttention
from model.config import ModelConfig
from model.kv_cache import KVCache

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "swish": functional.silu,
    "gelu": functional.gelu,
}


class FeedForward(nn.Module):
    """Position-wise feed-forward network (section 3.3): activation(x W1 + b1) W2 + b2."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.activation = _ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, d_model) -> (B, T, d_model)."""
        output: Tensor = self.outer(self.activation(self.inner(x)))  # inner: (B, T, d_ff)
        return output


class Sublayer(nn.Module):
    """Residual connection, dropout and LayerNorm around a sublayer (sections 3.1 and 5.4).

    Post-norm (the paper): LayerNorm(x + Sublayer(x)). Pre-norm: x + Sublayer(LayerNorm(x)).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def enter(self, x: Tensor) -> Tensor:
        """Returns the input of the sublayer: x, normalised in pre-norm models."""
        output: Tensor = self.norm(x) if self.pre else x
        return output

    def leave(self, x: Tensor, output: Tensor) -> Tensor:
        """Returns the sum of x and the sublayer's output, normalised in post-norm models."""
        total: Tensor = x + self.dropout(output)
        return total if self.pre else self.norm(total)


class SSRU(nn.Module):
    """f_t = sigmoid(W_f x_t + b_f), c_t = f_t * c_{t-1} + (1 - f_t) * W x_t with c_0 = 0; the
    output is relu(c_t).

    The simpler simple recurrent unit, a recurrence in place of the decoder's self-attention (Kim et
    al. 2019, "From Research to Production and Back: Ludicrously Fast Neural Machine Translation",
    section 3.1). Firefox's models have it: decoding keeps one vector per layer instead of the keys
    and values of all positions.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.input = nn.Linear(d_model, d_model, bias=False)
        self.forget = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """All T positions: x (B, T, d_model) -> (B, T, d_model)."""
        new, forget = self.input(x), self.forget_gates(x)
        state, states = torch.zeros_like(x[:, 0]), []  # (B, d_model) each
        for t in range(x.shape[1]):
            state = _advance(state, new[:, t], forget[:, t])
            states.append(state)
        return torch.relu(torch.stack(states, dim=1))

    def step(self, x: Tensor, cache: KVCache, layer: int) -> Tensor:
        """One position per row, from the state in the cache: x (B, 1, d_model) -> (B, 1,
        d_model)."""
        x = x.squeeze(1)
        state = _advance(cache.read_state(layer), self.input(x), self.forget_gates(x))
        cache.write_state(layer, state)
        return torch.relu(state).unsqueeze(1)

    def forget_gates(self, x: Tensor) -> Tensor:
        """The share of each feature of the state that is kept: x (..., d_model) -> (..., d_model)
        in 0 to 1."""
        return torch.sigmoid(self.forget(x))


def _advance(state: Tensor, new: Tensor, forget: Tensor) -> Tensor:
    """The next state: three of (B, d_model) -> (B, d_model)."""
    return forget * state + (1 - forget) * new


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward (section 3.1, encoder)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.heads)
        self.feed_forward = FeedForward(config)
        self.attention_residual = Sublayer(config)
        self.feed_forward_residual = Sublayer(config)

    def forward(self, x: Tensor, bias: Tensor | None, gate: Tensor | None = None) -> Tensor:
        """x (B, S, d_model), bias broadcastable to (B, H, S, S), gate (B or 1, H) -> (B, S,
        d_model)."""
        attended = self.self_attention(self.attention_residual.enter(x), bias, gate)
        x = self.attention_residual.leave(x, attended)
        return self.feed_forward_residual.leave(
            x, self.feed_forward(self.feed_forward_residual.enter(x))
        )


class DecoderLayer(nn.Module):
    """Masked self-attention, encoder-decoder attention, feed-forward (section 3.1, decoder).

    Models with a recurrence have `recurrence` in place of `self_attention`.
    """

    self_attention: MultiHeadAttention
    recurrence: SSRU | None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.recurrence == "none":
            self.self_attention, self.recurrence = (
                MultiHeadAttention(config.d_model, config.heads),
                None,
            )
        else:
            self.recurrence = SSRU(config.d_model)
        self.cross_attention = MultiHeadAttention(config.d_model, config.heads)
        self.feed_forward = FeedForward(config)
        self.self_residual = Sublayer(config)
        self.cross_residual = Sublayer(config)
        self.feed_forward_residual = Sublayer(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        self_bias: Tensor | None,
        cross_bias: Tensor | None,
        gates: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Tensor:
        """All T positions at once: x (B, T, d_model), memory (B, S, d_model) -> (B, T, d_model)."""
        entered = self.self_residual.enter(x)
        if self.recurrence is None:
            x = self.self_residual.leave(x, self.self_attention(entered, self_bias, gates[0]))
        else:
            x = self.self_residual.leave(x, self.recurrence(entered))
        query = self.cross_attention.queries(self.cross_residual.enter(x))  # (B, H, T, D)
        key, value = self.cross_attention.keys_values(memory)  # (B, H, S, D) each
        x = self.cross_residual.leave(
            x, self.cross_attention.attend(query, key, value, cross_bias, gates[1])
        )
        return self.feed_forward_residual.leave(
            x, self.feed_forward(self.feed_forward_residual.enter(x))
        )

    def step(
        self,
        x: Tensor,
        cache: KVCache,
        layer: int,
        self_bias: Tensor | None,
        cross_bias: Tensor | None,
        gates: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Tensor:
        """One position per row with cached keys and values: x (B, 1, d_model) -> (B, 1,
        d_model)."""
        entered = self.self_residual.enter(x)
        if self.recurrence is None:
            attended = self._attend_step(entered, cache, layer, self_bias, gates[0])
        else:
            attended = self.recurrence.step(entered, cache, layer)
        x = self.self_residual.leave(x, attended)
        query = self.cross_attention.queries(self.cross_residual.enter(x))  # (B, H, 1, D)
        keys, values = cache.read_cross(layer)  # (B, H, S, D) each
        x = self.cross_residual.leave(
            x, self.cross_attention.attend(query, keys, values, cross_bias, gates[1])
        )
        return self.feed_forward_residual.leave(
            x, self.feed_forward(self.feed_forward_residual.enter(x))
        )

    def _attend_step(
        self, entered: Tensor, cache: KVCache, layer: int, bias: Tensor | None, gate: Tensor | None
    ) -> Tensor:
        """Self-attention of one position per row: entered (B, 1, d_model) -> (B, 1, d_model)."""
        query = self.self_attention.queries(entered)  # (B, H, 1, D)
        key, value = self.self_attention.keys_values(entered)  # (B, H, 1, D) each
        # (B, H, T, D) each
        keys, values = cache.write_self(layer, key.squeeze(2), value.squeeze(2))
        return self.self_attention.attend(query, keys, values, bias, gate)
