"""Position schemes beside the sinusoids of `model.positions`: rotations, biases, and a restricted
neighbourhood. Models of this server have none of these; the page compares them. NumPy only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig
from model.positions import sinusoidal_table

Float32 = NDArray[np.float32]
_SHOWN = 20
"""Pairs of features of a table that are shown."""


class Scheme(NamedTuple):
    """Numbers of a scheme for n positions: `cells` (n, columns), and `curves` (number, n) over the
    positions."""

    columns: list[int]
    cells: Float32
    curves: Float32


def rotary(x: Float32) -> Float32:
    """Rotates the vectors (n, D) of n positions: features 2i and 2i + 1 of position p by p /
    10000^(2i / D) (Su et al. 2021, "RoFormer"). Products of two depend on their distance only."""
    rates = 10000.0 ** (-np.arange(0, x.shape[1], 2) / x.shape[1])
    turned = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * np.arange(len(x))[:, None] * rates)
    y: Float32 = np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape).astype(np.float32)
    return y


def alibi(heads: int, n: int) -> Float32:
    """Returns what each head adds to its products (H, n, n): -m |i - j|, m = 2^(-8 h / H) for head
    h from 1 (Press et al. 2022, "Train Short, Test Long")."""
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    places = np.arange(n)
    biases: Float32 = (-slopes[:, None, None] * np.abs(places[:, None] - places)).astype(np.float32)
    return biases


def restricted(n: int, r: int) -> Float32:
    """Returns the mask (n, n) of r positions around each: 0 within, minus infinity elsewhere (table
    1 of the paper). A path between two positions needs up to n / (r / 2) layers."""
    steps = np.arange(n) - np.arange(n)[:, None] + r // 2
    return np.where((steps >= 0) & (steps < r), 0, -np.inf).astype(np.float32)


def softmax(scores: Float32) -> Float32:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: Float32 = powers / powers.sum(axis=-1, keepdims=True)
    return weights


def schemes(config: ModelConfig, n: int, r: int) -> dict[str, Scheme]:
    """Returns the numbers of all schemes in the shape of a model. Tables show some features, and
    products with the middle position; the others what stands between positions, and the products,
    or weights of equal products, of the first position."""
    tables = {
        "sinusoidal": sinusoidal_table(
            n, config.d_model, half=config.positions == "sinusoidal_half"
        ),
        # before a training
        "learned": np.random.default_rng(0).normal(size=(n, config.d_model)).astype(np.float32),
    }
    pairs, every = config.d_model // 2, list(range(n))
    shown = [
        2 * (i * pairs // min(pairs, _SHOWN)) + j for i in range(min(pairs, _SHOWN)) for j in (0, 1)
    ]
    turned = rotary(np.full((n, config.head_dim), config.head_dim**-0.5, np.float32))
    biases, weights = alibi(config.heads, n), softmax(restricted(n, r))
    return {
        name: Scheme(shown, table[:, shown].copy(), table[None, n // 2] @ table.T)
        for name, table in tables.items()
    } | {
        "rope": Scheme(every, turned @ turned.T, turned[:1] @ turned.T),
        "alibi": Scheme(every, biases[0], softmax(biases[:, 0])),
        "restricted": Scheme(every, weights, weights[None, n // 2]),
    }
