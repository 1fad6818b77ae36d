"""Calibration for int8 keeps float32 results and reduces the rounding error; the integers of an
int8 file survive.

Float32 logits promise 2e-4: calibration changes the order of the sums.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model.backends.cpu import backend as module
from model.int8_calibration import for_int8, row_ranges
from model.layers import DecoderLayer
from model.transformer import Transformer
from model.weight_files import position_table
from tests.support.models import cpu_models
from tests.support.models.cpu_models import (
    PRECISIONS,
    VARIANTS,
    cpu_backend,
    needs_cpu_backend,
    rounded,
    sentences,
    tiny,
)

pytestmark = pytest.mark.numeric


def tensors_of(transformer: Transformer) -> dict[str, Any]:
    return {name: tensor.numpy().copy() for name, tensor in transformer.state_dict().items()}


def logits(transformer: Transformer) -> torch.Tensor:
    config = transformer.config
    source = torch.tensor(sentences(config, (9, 9, 9)))
    target = torch.tensor(sentences(config.replace(source_vocab_size=None), (7, 7, 7)))
    with torch.inference_mode():
        return transformer(source, torch.ones_like(source, dtype=torch.bool), target)


def with_a_large_constant(**changes: Any) -> Transformer:
    """Returns a model whose encoder outputs share a large constant vector, as in trained models."""
    transformer = tiny(**changes)
    norm = (
        transformer.encoder_norm
        if transformer.config.norm == "pre"
        else transformer.encoder[-1].feed_forward_residual.norm
    )
    with torch.no_grad():
        norm.bias.add_(torch.randn_like(norm.bias) * 20)
    return transformer


@pytest.mark.parametrize("variant", VARIANTS)
def test_calibration_changes_no_logits_in_float32(variant: str) -> None:
    transformer = with_a_large_constant(**VARIANTS[variant])
    config, tensors = transformer.config, tensors_of(transformer)
    replaced, _ = for_int8(config, tensors, position_table(config, tensors))
    assert set(replaced) == set(tensors)
    assert len(replaced) == len(tensors)
    moved = [
        name for name in tensors if "cross_attention" in name or name.startswith("encoder_norm")
    ]
    moved.append(f"encoder.{config.encoder_layers - 1}.feed_forward_residual.norm.bias")
    shifted = copy.deepcopy(transformer)
    shifted.load_state_dict(
        {name: torch.tensor(replaced[name] if name in moved else tensors[name]) for name in tensors}
    )
    assert not all(np.array_equal(replaced[name], tensors[name]) for name in moved)
    assert torch.allclose(logits(shifted), logits(transformer), atol=2e-4)


def cross_values(transformer: Transformer) -> torch.Tensor:
    """Returns the cross-attention values of the first decoder layer, (B, H, S, D)."""
    source = torch.tensor(sentences(transformer.config, (9, 9, 9)))
    layer = transformer.decoder[0]
    assert isinstance(layer, DecoderLayer)
    with torch.inference_mode():
        memory = transformer.encode(source, torch.ones_like(source, dtype=torch.bool))
        return layer.cross_attention.keys_values(memory)[1]


@pytest.mark.parametrize(
    "variant", ["the paper's", "pre-norm", "swish, half-and-half, bias, zero start"]
)
def test_calibration_reduces_the_rounding_error(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformer = with_a_large_constant(**VARIANTS[variant])
    exact, calibrated = cross_values(transformer), cross_values(rounded(transformer))
    monkeypatch.setattr(cpu_models, "for_int8", lambda config, tensors, positions: (tensors, []))
    plain = cross_values(rounded(transformer))
    assert (calibrated - exact).square().mean() < 0.1 * (plain - exact).square().mean()


def test_tensors_of_wrong_shape_are_returned_unchanged() -> None:
    transformer = tiny()
    tensors = tensors_of(transformer)
    table = position_table(transformer.config, tensors)
    tensors["embedding.weight"] = tensors["embedding.weight"][:5]
    assert for_int8(transformer.config, tensors, table) == (tensors, [])


def of_an_int8_file(integers: NDArray[np.int8], multiplier: float) -> NDArray[np.float32]:
    """Returns weights as the import of an int8 file computes them."""
    weights: NDArray[np.float32] = integers.astype(np.float32) * (
        np.float32(1) / np.float32(multiplier)
    )
    return weights


def integers(shape: tuple[int, int], seed: int = 0) -> NDArray[np.int8]:
    """Returns integers as in a file: rows of different width, one weight of 127, a row of zeros."""
    drawn = np.random.default_rng(seed).normal(size=shape) * np.linspace(4, 30, shape[0])[:, None]
    found = drawn.round().clip(-127, 127).astype(np.int8)
    found[shape[0] // 2, 3], found[1] = -127, 0
    return found


@pytest.mark.parametrize("seed", range(5))
def test_other_matrices_have_the_largest_magnitude_of_each_row(seed: int) -> None:
    weight = np.random.default_rng(seed).normal(size=(40, 16)).astype(np.float32)
    assert np.array_equal(row_ranges(weight), np.abs(weight).max(axis=1))
    mixed = of_an_int8_file(integers((100, 16)), 99.0)
    mixed[70:] = weight[:30]  # only the last rows were not int8
    assert np.array_equal(row_ranges(mixed), np.abs(mixed).max(axis=1))
    # a scale for each row
    weight = integers((64, 32)) * np.linspace(0.1, 0.9, 64, dtype=np.float32)[:, None]
    assert np.array_equal(row_ranges(weight), np.abs(weight).max(axis=1))


@needs_cpu_backend
@pytest.mark.parametrize("exact", [True, False])
def test_the_cpu_backend_keeps_the_integers_of_stacked_matrices(
    exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries, keys and values are one matrix there and have scales of their own in the file. The
    inputs are integers, which int8 does not round."""
    if not exact:
        monkeypatch.setattr(module, "row_ranges", lambda weight: np.abs(weight).max(axis=1))
    transformer = tiny(positions="learned", scale_embeddings=False)
    with torch.no_grad():
        transformer.positions.weight.zero_()
        tokens = integers(tuple(transformer.embedding.weight.shape))
        tokens[:, 0] = 127
        transformer.embedding.weight.copy_(torch.from_numpy(tokens))
        for number, part in enumerate(("query", "key", "value")):
            weight = transformer.encoder[0].self_attention.get_submodule(part).weight
            weight.copy_(
                torch.from_numpy(
                    of_an_int8_file(integers(tuple(weight.shape), number), 90.0 + number)
                )
            )
    [source] = sentences(transformer.config, (9,))
    float32, int8 = (
        cpu_backend(transformer, precision)
        .attention_maps(source, [5], vectors_of=("encoder", 0, 1))
        .vectors
        for precision in PRECISIONS
    )
    assert float32 is not None and int8 is not None
    for name in ("query", "key", "value"):
        expected = getattr(float32, name)
        equal = np.allclose(
            getattr(int8, name), expected, rtol=0, atol=1e-5 * np.abs(expected).max()
        )
        assert equal == exact, name
