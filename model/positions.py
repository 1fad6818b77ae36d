"""Where a token stands: sinusoidal tables (two layouts), rotary rotation, ALiBi biases."""

from __future__ import annotations

import torch
from torch import Tensor


def sinusoidal_table(
    length: int, d_model: int, *, half: bool = False, device: torch.device | None = None
) -> Tensor:
    """Sinusoidal encodings (length, d_model), float32 (the paper, section 3.5).

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos of the same angle. With `half` the sines fill
    the first half of the features and the cosines the second (tensor2tensor, Marian). Both have the linear-shift
    property PE(pos + k) = T_k PE(pos) with a rotation T_k that does not depend on pos (`shift_matrix`).
    """
    angles = _angles(torch.arange(length, dtype=torch.float64, device=device), d_model)
    if half:
        table = torch.cat([angles.sin(), angles.cos()], dim=1)
    else:
        table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    return table.float()  # (length, d_model)


def shift_matrix(offset: int, d_model: int) -> Tensor:
    """T_k (d_model, d_model), float64, for the interleaved layout: PE(pos + offset) = T_k @ PE(pos) for every pos."""
    angles = _angles(torch.tensor([float(offset)], dtype=torch.float64), d_model)[0]
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i, angle in enumerate(angles):
        sin, cos = torch.sin(angle), torch.cos(angle)
        matrix[2 * i, 2 * i], matrix[2 * i, 2 * i + 1] = cos, sin
        matrix[2 * i + 1, 2 * i], matrix[2 * i + 1, 2 * i + 1] = -sin, cos
    return matrix


def rotate(heads: Tensor, positions: Tensor) -> Tensor:
    """Rotary embedding (Su et al. 2021) of heads (B, H, T, D) at integer positions (B, T) or (T,)."""
    angles = _angles(positions.double(), heads.shape[-1]).float()  # (..., T, D/2)
    if angles.dim() == 3:
        angles = angles.unsqueeze(1)  # (B, 1, T, D/2)
    sin, cos = angles.sin().to(heads.dtype), angles.cos().to(heads.dtype)
    even, odd = heads[..., 0::2], heads[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def alibi_bias(heads: int, queries: Tensor, keys: Tensor) -> Tensor:
    """ALiBi (Press et al. 2022): -slope_h * |query - key|, added to the scores: (..., H, Tq, Tk) of (..., Tq), (..., Tk).

    Slopes are the geometric sequence 2^(-8h/H), h = 1..H. The distance is symmetric, so encoder and decoder share it.
    """
    slopes = torch.pow(2.0, -8.0 * torch.arange(1, heads + 1, device=queries.device) / heads)
    distance = (queries.unsqueeze(-1) - keys.unsqueeze(-2)).abs().float()  # (..., Tq, Tk)
    return -slopes.view(-1, 1, 1) * distance.unsqueeze(-3)


def _angles(positions: Tensor, width: int) -> Tensor:
    """pos / 10000^(2i / width) for i in [0, width / 2): (..., width / 2)."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width
    return positions.unsqueeze(-1) * torch.pow(10000.0, -exponents)
