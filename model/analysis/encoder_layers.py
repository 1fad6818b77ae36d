"""The layers of an encoder for single sentences, in float32, with the numbers that the attention maps do not have: the
residual, the output of each sublayer, the units of the feed-forward network. Positions can be left out. NumPy only.

Shapes: S source length, H heads, D head width, F units of the feed-forward network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig

Float32 = NDArray[np.float32]
Tensors = Mapping[str, Float32]


@dataclass(frozen=True, slots=True)
class EmbeddedSentence:
    """A sentence as the first layer reads it: `x` (S, d_model). Without `positions` the layers ignore the order: rotary
    embeddings, ALiBi and windows, which depend on distances, are left out too."""

    x: Float32
    positions: bool = True


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """One layer and one sentence. The first four are lengths (Euclidean norms) of each token's vector, (S,): what the
    residual connection carries past the self-attention, what the self-attention adds, and the same for the
    feed-forward network. `units` (S, F) are the outputs of the activation, `output` (S, d_model) that of the layer."""

    carried_past_attention: Float32
    attention: Float32
    carried_past_feed_forward: Float32
    feed_forward: Float32
    units: Float32
    output: Float32


def encoder_parameters(config: ModelConfig) -> int:
    """Returns the number of weights in the matrices of the encoder's layers."""
    return config.encoder_layers * config.d_model * (4 * config.d_model + 2 * config.d_ff)


def embedded(config: ModelConfig, embeddings: Float32, table: Float32, *, positions: bool = True) -> EmbeddedSentence:
    """Returns a sentence from its embeddings (S, d_model) and the position table (max_length, d_model)."""
    x = embeddings * np.float32(math.sqrt(config.d_model)) if config.scale_embeddings else embeddings
    added = positions and (config.positions == "learned" or config.positions.startswith("sinusoidal"))
    return EmbeddedSentence(x + table[: len(x)] if added else x, positions)


def encoder_layers(
    config: ModelConfig, tensors: Tensors, sentences: Sequence[EmbeddedSentence]
) -> Iterator[list[LayerRecord]]:
    """Yields the records of all sentences, layer by layer. The weights of one layer are in memory at a time."""
    states = [sentence.x for sentence in sentences]
    for number in range(config.encoder_layers):
        layer = _Layer(config, tensors, f"encoder.{number}.")
        records = [layer(x, sentence.positions) for x, sentence in zip(states, sentences, strict=True)]
        states = [record.output for record in records]
        yield records


def encoder_output(config: ModelConfig, tensors: Tensors, output: Float32) -> Float32:
    """Returns what the decoder reads, (S, d_model): the last layer's output, normalised in pre-norm models."""
    return _Norm(config, tensors, "encoder_norm.")(output) if config.norm == "pre" else output


class _Linear:
    def __init__(self, tensors: Tensors, name: str) -> None:
        self._weight, self._bias = tensors[name + "weight"], tensors[name + "bias"]

    def __call__(self, x: Float32) -> Float32:
        output: Float32 = x @ self._weight.T + self._bias
        return output


class _Norm:
    """LayerNorm over the features of one token."""

    def __init__(self, config: ModelConfig, tensors: Tensors, name: str) -> None:
        self._gain, self._offset = tensors[name + "weight"], tensors[name + "bias"]
        self._epsilon = config.norm_epsilon

    def __call__(self, x: Float32) -> Float32:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self._epsilon)
        output: Float32 = (centred / deviation * self._gain + self._offset).astype(np.float32)
        return output


class _Layer:
    """Self-attention, then feed-forward, as model/layers.py computes them."""

    def __init__(self, config: ModelConfig, tensors: Tensors, name: str) -> None:
        self._config = config
        self._attention = [_Linear(tensors, f"{name}self_attention.{part}.") for part in ("query", "key", "value")]
        self._merge = _Linear(tensors, f"{name}self_attention.output.")
        self._inner, self._outer = (_Linear(tensors, f"{name}feed_forward.{part}.") for part in ("inner", "outer"))
        self._norms = [
            _Norm(config, tensors, f"{name}{sublayer}_residual.norm.") for sublayer in ("attention", "feed_forward")
        ]

    def __call__(self, x: Float32, positions: bool) -> LayerRecord:
        pre = self._config.norm == "pre"
        first, second = self._norms
        attention = self._attend(first(x) if pre else x, positions)
        between = x + attention if pre else first(x + attention)
        units = _ACTIVATIONS[self._config.activation](self._inner(second(between) if pre else between))
        feed_forward = self._outer(units)
        output = between + feed_forward if pre else second(between + feed_forward)
        return LayerRecord(_length(x), _length(attention), _length(between), _length(feed_forward), units, output)

    def _attend(self, x: Float32, positions: bool) -> Float32:
        config, length = self._config, len(x)
        # (S, d_model) -> (H, S, D)
        split = [part(x).reshape(length, config.heads, -1).transpose(1, 0, 2) for part in self._attention]
        query, key, value = split
        if positions and config.positions == "rotary":
            query, key = _rotated(query), _rotated(key)
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])  # (H, S, S)
        if positions:
            scores = scores + _bias(config, length)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
        return self._merge((weights @ value).transpose(1, 0, 2).reshape(length, -1))


def _bias(config: ModelConfig, length: int) -> Float32:
    """Returns what distances add to the scores, (H, S, S) or (1, S, S)."""
    places = np.arange(length)
    distance = np.abs(places[:, None] - places[None, :])
    bias = np.zeros((1, length, length), dtype=np.float32)
    if config.positions == "alibi":
        slopes = 2.0 ** (-8.0 * np.arange(1, config.heads + 1) / config.heads)
        bias = (-slopes[:, None, None] * distance).astype(np.float32)
    return np.where(distance > config.window, np.float32(-np.inf), bias) if config.window is not None else bias


def _rotated(heads: Float32) -> Float32:
    """Applies rotary embeddings to heads (H, S, D), as model/positions.py does."""
    width = heads.shape[-1]
    angles = np.arange(heads.shape[1])[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    sin, cos = np.sin(angles).astype(np.float32), np.cos(angles).astype(np.float32)
    even, odd = heads[..., 0::2], heads[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(heads.shape)


def _length(x: Float32) -> Float32:
    length: Float32 = np.linalg.norm(x, axis=-1)
    return length


def _relu(x: Float32) -> Float32:
    return np.maximum(x, 0)


def _swish(x: Float32) -> Float32:
    output: Float32 = x / (1 + np.exp(-np.clip(x, -80, None)))
    return output


def _gelu(x: Float32) -> Float32:
    error = np.array([math.erf(each / math.sqrt(2)) for each in x.ravel().tolist()], dtype=np.float32)
    output: Float32 = np.float32(0.5) * x * (1 + error.reshape(x.shape))
    return output


_ACTIVATIONS = {"relu": _relu, "swish": _swish, "gelu": _gelu}
