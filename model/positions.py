"""Sinusoidal positional encodings, in two layouts."""

from __future__ import annotations

import torch
from torch import Tensor


def sinusoidal_table(length: int, d_model: int, *, half: bool = False) -> Tensor:
    """Returns sinusoidal encodings (length, d_model), float32 (the paper, section 3.5).

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos of the same angle. With `half` the sines fill
    the first half of the features and the cosines the second half (tensor2tensor, Marian).
    """
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / d_model
    positions = torch.arange(length, dtype=torch.float64, device="cpu")
    angles = positions.unsqueeze(-1) * torch.pow(10000.0, -exponents)  # (length, d_model / 2)
    if half:
        table = torch.cat([angles.sin(), angles.cos()], dim=1)
    else:
        table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    return table.float()  # (length, d_model)
