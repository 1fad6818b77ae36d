"""Calibration of int8 weights when a model is loaded, without data: ranges of the rows, and
corrections of the biases.

- The output of a trained encoder is a large constant vector plus a small part that depends on the
  input; in the default model the constant has 98% of the energy. The constant moves, without loss,
  from the encoder's last LayerNorm into the biases of cross-attention, so that only the small part
  is rounded.

- The output error that rounded weights cause for their mean input is subtracted from their biases
  (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction",
  section 4.2).

Both means are measured on sentences of random tokens.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig
from model.numpy_encoder import NumpyEncoder, sigmoid

Float32 = NDArray[np.float32]
Tensors = Mapping[str, Float32]

_SENTENCES, _TOKENS = 32, 12
_GRID = 256.0
"""Means are rounded to multiples of 1 / _GRID, so that biases do not depend on the number of
threads."""
_BLOCK = 64
_CLOSE = 1e-6
"""Relative to the largest magnitude: products of an integer and a scale are rounded by 2e-7."""


def for_int8(
    config: ModelConfig, tensors: Tensors, positions: Float32
) -> tuple[Tensors, list[Float32]]:
    """Returns the parameters with biases corrected for int8 matrices, and for each decoder layer
    the vector (d_model) that is left out of all its keys of cross-attention: their bias, and what
    the encoder's constant adds to it.

    `tensors` are the Transformer's parameters by name, `positions` the table (max_length, d_model)
    that is added to embeddings.
    """
    encoder = _Encoder(config, tensors)
    try:
        output = encoder.output(positions)
    except (ValueError, IndexError):  # inconsistent shapes: loading reports them
        return tensors, []
    center = _rounded(output.mean(axis=(0, 1)))
    biases = {
        f"{name}.bias": _corrected(tensors[f"{name}.weight"], tensors[f"{name}.bias"], mean)
        for name, mean in encoder.inputs.items()
    }
    norm = (
        "encoder_norm"
        if config.norm == "pre"
        else f"encoder.{config.encoder_layers - 1}.feed_forward_residual.norm"
    )
    biases[f"{norm}.bias"] = tensors[f"{norm}.bias"] - center
    key_shifts = []
    for layer in range(config.decoder_layers):
        attention = f"decoder.{layer}.cross_attention"
        key_bias = tensors[f"{attention}.key.bias"]
        constant = tensors[f"{attention}.key.weight"].astype(np.float64) @ center
        key_shifts.append((key_bias + constant).astype(np.float32))
        # A constant added to every key adds the same to all scores of a query; the softmax does not
        # change.
        biases[f"{attention}.key.bias"] = np.zeros_like(key_bias)
        shift = tensors[f"{attention}.value.weight"].astype(np.float64) @ center
        biases[f"{attention}.value.bias"] = (tensors[f"{attention}.value.bias"] + shift).astype(
            np.float32
        )
    # the others are read on access
    return ChainMap(biases, cast("dict[str, Float32]", tensors)), key_shifts


def row_ranges(weight: Float32) -> Float32:
    """Returns the magnitude of each row of a matrix (N, K) that becomes 127, (N,): its largest one.

    The weights of an int8 file with one scale for a matrix (Firefox's) are multiples of a 127th of
    the matrix's largest magnitude. All rows of such a matrix have this range, so that every weight
    becomes the integer of the file again.
    """
    ranges: Float32 = np.abs(np.maximum(weight.max(axis=1), -weight.min(axis=1)))
    top = ranges.max()
    if top > 0 and all(
        _are_multiples(weight[row : row + _BLOCK], top) for row in range(0, len(weight), _BLOCK)
    ):
        ranges.fill(top)
    return ranges


def _are_multiples(weights: Float32, top: np.float32) -> bool:
    step = top / np.float32(127)
    return bool(
        (np.abs(weights - np.rint(weights / step) * step) <= np.float32(_CLOSE) * top).all()
    )


def _corrected(weight: Float32, bias: Float32, mean: Float32) -> Float32:
    """Returns the bias with which the rounded weight (N, K) has the original mean output for inputs
    of this mean."""
    top = row_ranges(weight)[:, None]
    scale = np.where(top > 0, top, 1.0) / np.float32(127)
    error = (weight - np.rint(weight / scale) * scale).astype(np.float64)
    corrected: Float32 = (bias + error @ mean).astype(np.float32)
    return corrected


def _rounded(mean: Float32) -> Float32:
    rounded: Float32 = (np.rint(mean * _GRID) / _GRID).astype(np.float32)
    return rounded


class _Encoder(NumpyEncoder):
    """The encoder on sentences of random tokens. `inputs` has the mean input of each matrix by
    name."""

    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        super().__init__(config, tensors)
        self.inputs: dict[str, Float32] = {}

    def output(self, positions: Float32) -> Float32:
        """Returns the encoder's output (B, S, d_model)."""
        config = self.config
        shape = _SENTENCES, min(_TOKENS, config.max_length)
        ids = np.random.default_rng(0).integers(
            0, config.source_vocab_size or config.vocab_size, shape
        )
        ids[:, -1] = config.eos_id
        return self.run(ids, positions)[-1]

    def activated(self, inner: Float32) -> Float32:
        """Approximates GELU sufficiently for a mean (Hendrycks and Gimpel 2016, section 2)."""
        if self.config.activation != "gelu":
            return super().activated(inner)
        return (inner * sigmoid(1.702 * inner)).astype(np.float32)

    def linear(self, name: str, x: Float32) -> Float32:
        self.inputs[name] = _rounded(x.mean(axis=(0, 1)))
        return super().linear(name, x)
