"""Tests of the ranges of int8 weights: the integers of an int8 file survive, other matrices have a range per row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model.backends.cpu import engine
from model.backends.cpu.tensors import position_table
from model.calibration import for_int8
from model.int8_ranges import row_ranges
from model.quantization import QuantizedEmbedding, QuantizedLinear
from tests.support.cpu_models import PRECISIONS, cpu_backend, needs_cpu_backend, sentences, tiny

pytestmark = pytest.mark.numeric


def of_an_int8_file(integers: NDArray[np.int8], multiplier: float) -> NDArray[np.float32]:
    """Returns weights as the import of an int8 file computes them."""
    weights: NDArray[np.float32] = integers.astype(np.float32) * (np.float32(1) / np.float32(multiplier))
    return weights


def integers(shape: tuple[int, int], seed: int = 0) -> NDArray[np.int8]:
    """Returns integers as in a file: rows of different width, one weight of 127, a row of zeros."""
    drawn = np.random.default_rng(seed).normal(size=shape) * np.linspace(4, 30, shape[0])[:, None]
    found = drawn.round().clip(-127, 127).astype(np.int8)
    found[shape[0] // 2, 3], found[1] = -127, 0
    return found


@pytest.mark.parametrize("multiplier", [1.0, 31.7, 127 / 0.3, 1234.567, 3e-3, 9.1e5])
def test_the_integers_of_an_int8_file_come_back(multiplier: float) -> None:
    stored = integers((300, 48))
    weight = torch.from_numpy(of_an_int8_file(stored, multiplier))
    linear, embedding = QuantizedLinear.of(weight, None), QuantizedEmbedding(weight)
    assert np.array_equal(linear.weight.numpy(), stored)
    assert np.array_equal(embedding.weight.numpy(), stored)
    torch.testing.assert_close(linear.weight.float() * linear.scale, weight, rtol=3e-7, atol=0)


@pytest.mark.parametrize("seed", range(5))
def test_other_matrices_have_the_largest_magnitude_of_each_row(seed: int) -> None:
    weight = np.random.default_rng(seed).normal(size=(40, 16)).astype(np.float32)
    assert np.array_equal(row_ranges(weight), np.abs(weight).max(axis=1))
    mixed = of_an_int8_file(integers((100, 16)), 99.0)
    mixed[70:] = weight[:30]  # only the last rows were not int8
    assert np.array_equal(row_ranges(mixed), np.abs(mixed).max(axis=1))


def test_a_scale_for_each_row_is_kept() -> None:
    stored = integers((64, 32))
    stored[:, 0] = 127
    weight = stored * np.linspace(0.1, 0.9, 64, dtype=np.float32)[:, None]
    assert np.array_equal(row_ranges(weight), np.abs(weight).max(axis=1))
    assert np.array_equal(QuantizedLinear.of(torch.from_numpy(weight), None).weight.numpy(), stored)


def test_zeros_and_one_weight() -> None:
    assert row_ranges(np.zeros((3, 16), dtype=np.float32)).tolist() == [0, 0, 0]
    assert row_ranges(np.array([[-2.0], [0.0]], dtype=np.float32)).tolist() == [2, 2]


def test_exact_weights_need_no_correction_of_biases() -> None:
    transformer = tiny()
    tensors = {name: tensor.numpy().copy() for name, tensor in transformer.state_dict().items()}
    name = "encoder.0.feed_forward.inner"
    tensors[f"{name}.weight"] = of_an_int8_file(integers(tensors[f"{name}.weight"].shape), 300.0)
    replaced = for_int8(transformer.config, tensors, position_table(transformer.config, tensors))
    assert np.abs(replaced[f"{name}.bias"] - tensors[f"{name}.bias"]).max() < 1e-5
    other = "encoder.0.feed_forward.outer.bias"
    assert np.abs(replaced[other] - tensors[other]).max() > 1e-5


@needs_cpu_backend
@pytest.mark.parametrize("exact", [True, False])
def test_the_cpu_backend_keeps_the_integers_of_stacked_matrices(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries, keys and values are one matrix there and have scales of their own in the file. The inputs are integers,
    which int8 does not round."""
    if not exact:
        monkeypatch.setattr(engine, "row_ranges", lambda weight: np.abs(weight).max(axis=1))
    transformer = tiny(positions="learned", scale_embeddings=False)
    with torch.no_grad():
        transformer.positions.weight.zero_()
        tokens = integers(tuple(transformer.embedding.weight.shape))
        tokens[:, 0] = 127
        transformer.embedding.weight.copy_(torch.from_numpy(tokens))
        for number, part in enumerate(("query", "key", "value")):
            weight = transformer.encoder[0].self_attention.get_submodule(part).weight
            weight.copy_(torch.from_numpy(of_an_int8_file(integers(tuple(weight.shape), number), 90.0 + number)))
    [source] = sentences(transformer.config, (9,))
    float32, int8 = (
        cpu_backend(transformer, precision).attention_maps(source, [5], vectors_of=("encoder", 0, 1)).vectors
        for precision in PRECISIONS
    )
    assert float32 is not None and int8 is not None
    for name in ("query", "key", "value"):
        expected = getattr(float32, name)
        equal = np.allclose(getattr(int8, name), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
        assert equal == exact, name
