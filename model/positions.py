"""Positional encodings: sinusoidal tables in two layouts, rotary embeddings, ALiBi biases."""

from __future__ import annotations

import torch
from torch import Tensor


def sinusoidal_table(length: int, d_model: int, *, half: bool = False) -> Tensor:
    """Returns sinusoidal encodings (length, d_model), float32 (the paper, section 3.5).

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos of the same angle. With `half` the sines fill
    the first half of the features and the cosines the second half (tensor2tensor, Marian).
    """
    angles = _angles(torch.arange(length, dtype=torch.float64, device="cpu"), d_model)
    if half:
        table = torch.cat([angles.sin(), angles.cos()], dim=1)
    else:
        table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    return table.float()  # (length, d_model)


def rotate(heads: Tensor, positions: Tensor) -> Tensor:
    """Applies rotary embeddings (Su et al. 2021) to heads (B, H, T, D) at integer positions (B, T) or (T,)."""
    angles = _angles(positions.double(), heads.shape[-1]).float()  # (..., T, D/2)
    if angles.dim() == 3:
        angles = angles.unsqueeze(1)  # (B, 1, T, D/2)
    sin, cos = angles.sin().to(heads.dtype), angles.cos().to(heads.dtype)
    even, odd = heads[..., 0::2], heads[..., 1::2]  # (B, H, T, D/2) each
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)  # (B, H, T, D)


def alibi_bias(heads: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Returns the ALiBi bias (Press et al. 2022), -slope_h * |query - key|: (..., T), (..., S) -> (..., H, T, S).

    Slopes are the geometric sequence 2^(-8h/H), h = 1..H. The distance is symmetric, so encoder and decoder share it.
    """
    slopes = torch.pow(2.0, -8.0 * torch.arange(1, heads + 1, device=queries.device) / heads)
    distance = (queries.unsqueeze(-1) - keys.unsqueeze(-2)).abs().float()  # (..., T, S)
    return -slopes.view(-1, 1, 1) * distance.unsqueeze(-3)  # (H, 1, 1) * (..., 1, T, S)


def _angles(positions: Tensor, width: int) -> Tensor:
    """Returns pos / 10000^(2i / width) for i in [0, width / 2): (...) -> (..., width / 2)."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width
    return positions.unsqueeze(-1) * torch.pow(10000.0, -exponents)
