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


def value_products(values: Array, outputs: Sequence[Array], masked_heads: Sequence[Head]) -> Array:
    """Returns the inner products (L, S, H, H) of the heads' vectors u, 0 for masked heads: values (L, H, S, D), and the
    output projection of each layer (H, D, d_model)."""
    values = values.copy()
    for kind, layer, head in masked_heads:
        if kind == "cross":
            values[layer, head] = 0
    added = [(value @ output).transpose(1, 0, 2) for value, output in zip(values, outputs, strict=True)]  # (S, H, d)
    return np.stack([each @ each.transpose(0, 2, 1) for each in added])


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
