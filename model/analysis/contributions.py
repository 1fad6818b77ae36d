"""Contributions of source tokens to cross-attention (Kobayashi et al. 2020, "Attention is Not Only
a Weight: Analyzing Transformers with Vector Norms"), and attention rollout. NumPy only.

Head h adds a(t, s) u(s) to position t for source token s: its weight, times the token's value after
the head's part of the output projection. The lengths of these vectors, and of their sum over the
heads, need only the inner products of u.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.analysis.types import Head

Array = NDArray[np.float32]
Weights = NDArray[np.float32]


def value_products(
    values: Array,
    outputs: Sequence[Array],
    masked_heads: Sequence[Head],
    layers: Sequence[int] | None = None,
) -> Array:
    """Returns the inner products (L, S, H, H) of the heads' vectors u, 0 for masked heads and for
    layers not in `layers`: values (L, H, S, D), and each layer's output projection (H, D,
    d_model)."""
    count, heads, length, _ = values.shape
    products = np.zeros((count, length, heads, heads), dtype=np.float32)
    for layer in range(count) if layers is None else set(layers):
        kept = np.array(
            [("cross", layer, head) not in masked_heads for head in range(heads)], dtype=np.float32
        )
        # (S, H, d)
        added = ((values[layer] * kept[:, None, None]) @ outputs[layer]).transpose(1, 0, 2)
        products[layer] = added @ added.transpose(0, 2, 1)
    return products


def head_contributions(cross: Array, products: Array) -> Array:
    """Returns the length of what each head adds for each source token: weights (L, H, T, S) -> (L,
    H, T, S)."""
    lengths = np.sqrt(np.diagonal(products, axis1=2, axis2=3))  # (L, S, H)
    return cross * lengths.transpose(0, 2, 1)[:, :, None]


def layer_contributions(cross: Array, products: Array) -> Array:
    """Returns the length of what all heads of a layer together add: weights (L, H, T, S) -> (L, T,
    S)."""
    weights = cross.transpose(0, 3, 2, 1)  # (L, S, T, H)
    squares = ((weights @ products) * weights).sum(axis=-1)  # (L, S, T)
    return np.ascontiguousarray(np.sqrt(np.maximum(squares, 0)).transpose(0, 2, 1))


@dataclass(frozen=True, slots=True)
class Rollout:
    """Attention rollout after every layer, with residual connections of weight 1/2 (Abnar & Zuidema
    2020).

    `encoder` (L, S, S): share of source position k in encoder position q. `decoder` (L, T, T) and
    `cross` (L, T, S): shares of decoder input k and of source position k in decoder position q;
    both rows together sum to 1.
    """

    encoder: Weights
    decoder: Weights
    cross: Weights


def rollout(encoder: Weights, decoder: Weights, cross: Weights) -> Rollout:
    """Computes the rollout of maps (L, H, S, S), (L, H, T, T), (L, H, T, S), averaged over
    heads."""
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
