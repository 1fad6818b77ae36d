"""The simpler simple recurrent unit: a recurrence in place of the decoder's self-attention (Kim et al. 2019, "From
Research to Production and Back: Ludicrously Fast Neural Machine Translation", section 3.1).

Firefox's models have it: decoding keeps one vector per layer instead of the keys and values of all positions.
B batch, T target length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.kv_cache import KVCache


class SSRU(nn.Module):
    """f_t = sigmoid(W_f x_t + b_f), c_t = f_t * c_{t-1} + (1 - f_t) * W x_t with c_0 = 0; the output is relu(c_t)."""

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
        """One position per row, from the state in the cache: x (B, 1, d_model) -> (B, 1, d_model)."""
        x = x.squeeze(1)
        state = _advance(cache.read_state(layer), self.input(x), self.forget_gates(x))
        cache.write_state(layer, state)
        return torch.relu(state).unsqueeze(1)

    def forget_gates(self, x: Tensor) -> Tensor:
        """The share of each feature of the state that is kept: x (..., d_model) -> (..., d_model) in 0 to 1."""
        return torch.sigmoid(self.forget(x))


def _advance(state: Tensor, new: Tensor, forget: Tensor) -> Tensor:
    """The next state: three of (B, d_model) -> (B, d_model)."""
    return forget * state + (1 - forget) * new
