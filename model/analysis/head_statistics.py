"""Statistics of attention heads: entropy, diagonality, and role. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.analysis.types import Kind

Weights = NDArray[np.float32]
Role = Literal["previous", "before_previous", "next", "same", "start", "end", "diagonal", "broad", "mixed"]

_OFFSETS: dict[Kind, tuple[tuple[Role, int], ...]] = {
    "cross": (),
    "encoder": (("same", 0), ("previous", -1), ("next", 1)),
    # A row of the decoder is named by the token that it produced; key k is the token before the one produced in row k.
    "decoder": (("previous", 0), ("before_previous", -1)),
}
"""Positional roles of each kind: the key that a query attends to, relative to its row."""

_ROLE_SHARE = 0.5
"""A head has a positional role if at least this share of its queries has its largest weight there."""
_DIAGONAL, _BROAD = 0.4, 0.8


@dataclass(frozen=True, slots=True)
class HeadFigures:
    """Statistics of one head.

    `entropy` is in bits, averaged over the queries. `spread` is the entropy divided by its maximum, 0 to 1.
    `diagonality` is 1 for weights on the diagonal and 0 for uniform weights. `role` is the position most queries attend
    to, and `role_share` the share of these queries (0 for "broad", "diagonal" and "mixed").
    """

    entropy: float
    spread: float
    diagonality: float
    role: Role
    role_share: float


def head_figures(maps: Weights, kind: Kind) -> list[list[HeadFigures]]:
    """Returns the statistics of maps (L, H, Q, K) of one kind as [layer][head]. The roles of decoder heads are relative
    to the token that a row produced."""
    bits, diagonal = entropy(maps), diagonality(maps)
    most = np.log2(visible(maps)).mean(axis=-1)  # (L, H)
    spread = np.divide(bits.mean(axis=-1), most, out=np.zeros_like(most), where=most > 0)
    layers, heads = maps.shape[:2]
    return [
        [
            HeadFigures(
                float(bits[layer, head].mean()),
                float(spread[layer, head]),
                float(diagonal[layer, head]),
                *_role(maps[layer, head], kind, float(diagonal[layer, head]), float(spread[layer, head])),
            )
            for head in range(heads)
        ]
        for layer in range(layers)
    ]


def entropy(maps: Weights) -> Weights:
    """Returns the entropy of each query's weights in bits, 0 (one key) to log2 K (uniform): (..., Q, K) -> (..., Q)."""
    logs = np.log2(maps, out=np.zeros_like(maps), where=maps > 0)
    return np.asarray(np.maximum(0.0, -(maps * logs).sum(axis=-1)), dtype=np.float32)


def diagonality(maps: Weights) -> Weights:
    """Returns 1 - 3 E|q - k| over relative positions q, k in [0, 1]: (..., Q, K) -> (...).

    1 if all weight is on the diagonal, 0 for uniform weights (E|q - k| = 1/3), negative for weight far from the diagonal.
    """
    queries, keys = maps.shape[-2:]
    distance = np.abs(np.linspace(0, 1, queries)[:, None] - np.linspace(0, 1, keys)[None, :])
    return np.asarray(1 - 3 * (maps * distance).sum(axis=-1).mean(axis=-1), dtype=np.float32)


def visible(maps: Weights) -> Weights:
    """Returns the number of keys with nonzero weight, at least 1: (..., Q, K) -> (..., Q)."""
    return np.asarray(np.maximum(1.0, (maps > 0).sum(axis=-1)), dtype=np.float32)


def _role(weights: Weights, kind: Kind, diagonal: float, spread: float) -> tuple[Role, float]:
    """Returns the role of one map (Q, K) and the share of its queries."""
    queries, keys = weights.shape
    best, place = weights.argmax(axis=-1), np.arange(queries)
    shares: dict[Role, float] = {"end": float((best == keys - 1).mean()), "start": float((best == 0).mean())}
    shares |= {role: float((best == place + offset).mean()) for role, offset in _OFFSETS[kind]}
    role = max(shares, key=lambda name: shares[name])
    if shares[role] >= _ROLE_SHARE and spread < _BROAD:
        return role, shares[role]
    if spread >= _BROAD:
        return "broad", 0.0
    return ("diagonal", 0.0) if diagonal >= _DIAGONAL else ("mixed", 0.0)
