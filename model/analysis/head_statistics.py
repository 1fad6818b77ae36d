"""Numbers beside attention maps: rollout, entropy, diagonality and the role of every head. NumPy only, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]
Role = Literal["previous", "next", "same", "start", "end", "diagonal", "broad", "mixed"]

_ROLE_SHARE = 0.5
"""A head has a role when at least this share of its queries looks there most."""
_DIAGONAL, _BROAD = 0.4, 0.8


@dataclass(frozen=True, slots=True)
class HeadFigures:
    """One head in numbers. `entropy` is in bits, averaged over the queries; `spread` is entropy over its largest possible
    value, 0 to 1; `diagonality` is 1 on the diagonal and 0 for a head that looks everywhere alike; `role` is where most
    queries look, `role_share` how many of them do (0 for "broad", "diagonal" and "mixed", which are not about a place).
    """

    entropy: float
    spread: float
    diagonality: float
    role: Role
    role_share: float


def head_figures(maps: Weights, *, own: bool) -> list[list[HeadFigures]]:
    """Figures of maps (L, H, Q, K), [layer][head]. `own` says that queries and keys are the same sentence."""
    bits, diagonal = entropy(maps), diagonality(maps)
    most = np.log2(visible(maps)).mean(axis=-1)  # (L, H)
    spread = np.divide(bits.mean(axis=-1), most, out=np.zeros_like(most), where=most > 0)
    layers, heads = maps.shape[:2]
    return [
        [
            HeadFigures(
                float(bits[layer, head].mean()), float(spread[layer, head]), float(diagonal[layer, head]),
                *_role(maps[layer, head], own, float(diagonal[layer, head]), float(spread[layer, head])),
            )
            for head in range(heads)
        ]
        for layer in range(layers)
    ]


def entropy(maps: Weights) -> Weights:
    """Entropy of each query's weights in bits: (..., Q, K) -> (..., Q). 0 looks at one key, log2 K at all alike."""
    logs = np.log2(maps, out=np.zeros_like(maps), where=maps > 0)
    return np.asarray(np.maximum(0.0, -(maps * logs).sum(axis=-1)), dtype=np.float32)


def diagonality(maps: Weights) -> Weights:
    """1 - 3 E|q - k| over relative places q and k in [0, 1]: (..., Q, K) -> (...). A uniform map of a long sentence has
    E|q - k| = 1/3, so 0; all weight on the diagonal is 1; all of it in far corners is negative."""
    queries, keys = maps.shape[-2:]
    distance = np.abs(np.linspace(0, 1, queries)[:, None] - np.linspace(0, 1, keys)[None, :])
    return np.asarray(1 - 3 * (maps * distance).sum(axis=-1).mean(axis=-1), dtype=np.float32)


def visible(maps: Weights) -> Weights:
    """How many keys each query gives any weight to: (..., Q, K) -> (..., Q)."""
    return np.asarray(np.maximum(1.0, (maps > 0).sum(axis=-1)), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Attention rollout after every layer, residual connections counted as half of each sublayer (Abnar & Zuidema 2020).

    `encoder` (L, S, S): how much of source place k is in encoder position q. `decoder` (L, T, T) and `cross` (L, T, S): how
    much of decoder input k and of source place k is in decoder position q; the two together have rows that sum to 1.
    """

    encoder: Weights
    decoder: Weights
    cross: Weights


def rollout(encoder: Weights, decoder: Weights, cross: Weights) -> Rollout:
    """Rollout of maps (L, H, S, S), (L, H, T, T), (L, H, T, S), heads averaged."""
    source = np.eye(encoder.shape[-1], dtype=np.float32)
    after_encoder = []
    for layer in encoder.mean(axis=1):
        source = 0.5 * source + 0.5 * layer @ source
        after_encoder.append(source)
    written = np.eye(decoder.shape[-1], dtype=np.float32)
    read = np.zeros(cross.shape[-2:], dtype=np.float32)
    after_decoder, after_cross = [], []
    for own, looked in zip(decoder.mean(axis=1), cross.mean(axis=1), strict=True):
        written, read = 0.5 * written + 0.5 * own @ written, 0.5 * read + 0.5 * own @ read
        written, read = 0.5 * written, 0.5 * read + 0.5 * looked @ source
        after_decoder.append(written)
        after_cross.append(read)
    return Rollout(np.stack(after_encoder), np.stack(after_decoder), np.stack(after_cross))


def _role(weights: Weights, own: bool, diagonal: float, spread: float) -> tuple[Role, float]:
    """Where most queries of one map (Q, K) look."""
    queries, keys = weights.shape
    best, place = weights.argmax(axis=-1), np.arange(queries)
    shares: dict[Role, float] = {"end": float((best == keys - 1).mean()), "start": float((best == 0).mean())}
    if own:
        offsets: tuple[tuple[Role, int], ...] = (("same", 0), ("previous", -1), ("next", 1))
        shares |= {role: float((best == place + offset).mean()) for role, offset in offsets}
    role = max(shares, key=lambda name: shares[name])
    if shares[role] >= _ROLE_SHARE and spread < _BROAD:
        return role, shares[role]
    if spread >= _BROAD:
        return "broad", 0.0
    return ("diagonal", 0.0) if diagonal >= _DIAGONAL else ("mixed", 0.0)
