"""Token ids and switched-off heads as tensors, and tensors as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.types import check_head
from model.kv_cache import to_device
from model.search.backend_interface import MaskedHeads
from model.transformer import HeadGates, Transformer


def pad_ids(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns rows of ids padded to one batch (B, S), and its mask (B, S), True at tokens."""
    width = max(len(row) for row in rows)
    ids = to_device(torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows]), device)
    lengths = to_device(torch.tensor([len(row) for row in rows]), device)
    return ids, torch.arange(width, device=device)[None, :] < lengths[:, None]


def to_array(tensor: Tensor) -> NDArray[np.float32]:
    """Returns a tensor in float32 on the host."""
    return np.ascontiguousarray(tensor.float().cpu().numpy())


def head_gates(transformer: Transformer, masked: Sequence[MaskedHeads]) -> HeadGates:
    """Returns gates (B, L, H) that are 0 at the masked heads of each row. Raises ValueError for
    unknown heads."""
    config = transformer.config
    parameter = next(transformer.parameters())
    layers = {
        "encoder": config.encoder_layers,
        "decoder": config.decoder_layers,
        "cross": config.decoder_layers,
    }
    gates = {
        kind: torch.ones(
            len(masked), count, config.heads, dtype=parameter.dtype, device=parameter.device
        )
        for kind, count in layers.items()
    }
    for row, heads in enumerate(masked):
        for kind, layer, head in heads:
            check_head(config, (kind, layer, head))
            gates[kind][row, layer, head] = 0.0
    return HeadGates(**gates)
