"""Attention rollout: the share of every position in the vectors of the others. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Attention rollout after every layer, with residual connections of weight 1/2 (Abnar & Zuidema 2020).

    `encoder` (L, S, S): share of source position k in encoder position q. `decoder` (L, T, T) and `cross` (L, T, S):
    share of decoder input k and of source position k in decoder position q; the rows of both together sum to 1.
    """

    encoder: Weights
    decoder: Weights
    cross: Weights


def rollout(encoder: Weights, decoder: Weights, cross: Weights) -> Rollout:
    """Computes the rollout of maps (L, H, S, S), (L, H, T, T), (L, H, T, S), averaged over heads."""
    source = np.eye(encoder.shape[-1], dtype=np.float32)
    after_encoder = []
    for layer in encoder.mean(axis=1):
        source = 0.5 * source + 0.5 * layer @ source
        after_encoder.append(source)
    written = np.eye(decoder.shape[-1], dtype=np.float32)
    read = np.zeros(cross.shape[-2:], dtype=np.float32)
    after_decoder, after_cross = [], []
    for own, attended in zip(decoder.mean(axis=1), cross.mean(axis=1), strict=True):
        written, read = 0.5 * written + 0.5 * own @ written, 0.5 * read + 0.5 * own @ read
        written, read = 0.5 * written, 0.5 * read + 0.5 * attended @ source
        after_decoder.append(written)
        after_cross.append(read)
    return Rollout(np.stack(after_encoder), np.stack(after_decoder), np.stack(after_cross))
