"""Contributions of source tokens to cross-attention: the lengths of the vectors that it adds (Kobayashi et al. 2020,
"Attention is Not Only a Weight: Analyzing Transformers with Vector Norms"). NumPy only.

Head h adds a(t, s) u(s) to position t for source token s: its weight, times the token's value after the head's part of
the output projection. Lengths of these vectors, and of their sum over the heads, need only the inner products of u.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from model.analysis.types import Head

Array = NDArray[np.float32]


def value_products(
    values: Array, outputs: Sequence[Array], masked_heads: Sequence[Head], layers: Sequence[int] | None = None
) -> Array:
    """Returns the inner products (L, S, H, H) of the heads' vectors u, 0 for masked heads and for other layers than
    `layers`: values (L, H, S, D), and the output projection of each layer (H, D, d_model)."""
    count, heads, length, _ = values.shape
    products = np.zeros((count, length, heads, heads), dtype=np.float32)
    for layer in range(count) if layers is None else set(layers):
        kept = np.array([("cross", layer, head) not in masked_heads for head in range(heads)], dtype=np.float32)
        added = ((values[layer] * kept[:, None, None]) @ outputs[layer]).transpose(1, 0, 2)  # (S, H, d)
        products[layer] = added @ added.transpose(0, 2, 1)
    return products


def head_contributions(cross: Array, products: Array) -> Array:
    """Returns the length of what each head adds to a position for each source token: weights (L, H, T, S) -> (L, H, T,
    S)."""
    lengths = np.sqrt(np.diagonal(products, axis1=2, axis2=3))  # (L, S, H)
    return cross * lengths.transpose(0, 2, 1)[:, :, None]


def layer_contributions(cross: Array, products: Array) -> Array:
    """Returns the length of what all heads of a layer together add: weights (L, H, T, S) -> (L, T, S)."""
    weights = cross.transpose(0, 3, 2, 1)  # (L, S, T, H)
    squares = ((weights @ products) * weights).sum(axis=-1)  # (L, S, T)
    return np.ascontiguousarray(np.sqrt(np.maximum(squares, 0)).transpose(0, 2, 1))
