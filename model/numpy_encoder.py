"""The encoder in NumPy and float32, for studies and for the calibration of int8 weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig

Float32 = NDArray[np.float32]
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def activated(config: ModelConfig, inner: Float32) -> Float32:
    """Returns the units of a feed-forward network after the activation."""
    match config.activation:
        case "relu":
            active: Float32 = np.maximum(inner, 0)
        case "swish":
            active = inner * sigmoid(inner)
        case "gelu":
            active = inner * np.float32(0.5) * (1 + _erf(inner * np.float32(math.sqrt(0.5))))
    return active.astype(np.float32, copy=False)


def sigmoid(x: Float32) -> Float32:
    y: Float32 = (1 / (1 + np.exp(-np.clip(x, -60, 60)))).astype(np.float32)
    return y


def _erf(x: Float32) -> Float32:
    """Abramowitz and Stegun 7.1.26, absolute error 1.5e-7, as in the engine."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    y: Float32 = (np.sign(x) * (1 - np.polyval((*_ERF, 0.0), t) * np.exp(-x * x))).astype(
        np.float32
    )
    return y


class NumpyEncoder:
    """The encoder of a Transformer with the parameters `tensors` by name, for B sentences of S
    tokens without padding."""

    def __init__(self, config: ModelConfig, tensors: Mapping[str, Float32]) -> None:
        self.config, self.tensors = config, tensors

    def run(
        self, ids: Sequence[Sequence[int]] | NDArray[np.int64], positions: Float32
    ) -> list[Float32]:
        """Returns the first layer's input and each layer's output (B, S, d_model); of a pre-norm
        model also the final norm. `positions` (at least S, d_model) are added to the embeddings."""
        config = self.config
        table = self.tensors[
            "embedding.weight" if config.tied_embeddings else "source_embedding.weight"
        ]
        scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        read = np.asarray(ids)
        x = (table[read] * np.float32(scale) + positions[: read.shape[1]]).astype(np.float32)
        if config.embedding_norm:
            x = self._norm("encoder_embedding_norm", x)
        states = [x]
        for layer in range(config.encoder_layers):
            x = self._sublayer(
                f"encoder.{layer}.attention_residual", x, f"encoder.{layer}.self_attention"
            )
            x = self._sublayer(
                f"encoder.{layer}.feed_forward_residual", x, f"encoder.{layer}.feed_forward"
            )
            states.append(x)
        return [*states, self._norm("encoder_norm", x)] if config.norm == "pre" else states

    def activated(self, inner: Float32) -> Float32:
        return activated(self.config, inner)

    def linear(self, name: str, x: Float32) -> Float32:
        # one product: NumPy computes that of three dimensions sentence by sentence
        rows = x.reshape(-1, x.shape[-1])
        y: Float32 = rows @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]
        return y.reshape(*x.shape[:-1], -1)

    def _sublayer(self, residual: str, x: Float32, name: str) -> Float32:
        pre = self.config.norm == "pre"
        entered = self._norm(f"{residual}.norm", x) if pre else x
        output = (
            self._attention(name, entered)
            if name.endswith("attention")
            else self._feed_forward(name, entered)
        )
        return x + output if pre else self._norm(f"{residual}.norm", x + output)

    def _attention(self, name: str, x: Float32) -> Float32:
        query, key, value = (
            self._heads(self.linear(f"{name}.{part}", x)) for part in ("query", "key", "value")
        )
        # (B, H, S, S)
        scores = query @ key.swapaxes(-1, -2) * np.float32(self.config.head_dim**-0.5)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = (weights / weights.sum(axis=-1, keepdims=True)) @ value
        return self.linear(f"{name}.output", context.swapaxes(1, 2).reshape(x.shape))

    def _heads(self, x: Float32) -> Float32:
        """(B, S, d_model) -> (B, H, S, D)"""
        return x.reshape(*x.shape[:2], self.config.heads, -1).swapaxes(1, 2)

    def _feed_forward(self, name: str, x: Float32) -> Float32:
        return self.linear(f"{name}.outer", self.activated(self.linear(f"{name}.inner", x)))

    def _norm(self, name: str, x: Float32) -> Float32:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(
            (centred * centred).mean(axis=-1, keepdims=True) + np.float32(self.config.norm_epsilon)
        )
        y: Float32 = (
            centred / deviation * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]
        )
        return y
