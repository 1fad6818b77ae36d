"""Conversion between interleaved sinusoids (the paper) and half-and-half ones (Marian) by permuting features.

Interleaved: PE(pos, 2i) = sin, PE(pos, 2i+1) = cos. Half-and-half: all sines, then all cosines. The rest of a
Transformer treats all features of the residual stream alike, so a permutation of all matrices gives an equivalent
model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from model.config import ModelConfig

_READS_STREAM = (
    ".query.weight",
    ".key.weight",
    ".value.weight",
    ".inner.weight",
    "embedding.weight",
    "projection.weight",
)
_WRITES_STREAM = (".output.weight", ".output.bias", ".outer.weight", ".outer.bias")


def to_half(config: ModelConfig, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Converts interleaved to half-and-half: feature 2i becomes i, feature 2i+1 becomes d_model / 2 + i."""
    features = torch.arange(config.d_model)
    return _permute(tensors, torch.cat([features[0::2], features[1::2]]))


def to_interleaved(config: ModelConfig, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inverse of `to_half`."""
    features = torch.arange(config.d_model)
    return _permute(tensors, torch.stack(features.chunk(2), dim=1).flatten())


def _permute(tensors: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    permuted = {}
    for name, tensor in tensors.items():
        if name.endswith(_READS_STREAM):
            permuted[name] = tensor[:, order].contiguous()
        elif name.endswith(_WRITES_STREAM) or "norm." in name:
            permuted[name] = tensor[order].contiguous()
        else:
            permuted[name] = tensor
    return permuted
