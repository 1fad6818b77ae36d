"""Tests that calibration for int8 keeps float32 results and reduces the rounding error.

Float32 logits promise 2e-4: calibration changes the order of the sums.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from model import quantization
from model.backends.cpu.tensors import position_table
from model.calibration import for_int8
from model.layers import DecoderLayer
from model.quantization import quantize
from model.transformer import Transformer
from tests.support.cpu_models import VARIANTS, cpu_backend, needs_cpu_backend, sentences, tiny

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
    replaced = for_int8(config, tensors, position_table(config, tensors))
    assert set(replaced) == set(tensors)
    assert len(replaced) == len(tensors)
    moved = [name for name in tensors if "cross_attention" in name or name.startswith("encoder_norm")]
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


@pytest.mark.parametrize("variant", ["post-norm", "pre-norm", "marian"])
def test_calibration_reduces_the_rounding_error(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transformer = with_a_large_constant(**VARIANTS[variant])
    exact, calibrated = cross_values(transformer), cross_values(quantize(transformer))
    monkeypatch.setattr(quantization, "for_int8", lambda config, tensors, positions: tensors)
    plain = cross_values(quantize(transformer))
    assert (calibrated - exact).square().mean() < 0.1 * (plain - exact).square().mean()


@needs_cpu_backend
def test_torch_and_the_cpu_backend_use_the_same_biases() -> None:
    transformer = with_a_large_constant()
    small, engine = quantize(transformer), cpu_backend(transformer, "int8")
    source = sentences(transformer.config, (9,))
    engine.prefill(source, [0])
    output = engine.step([0], [2], 200, [-1])
    with torch.inference_mode():
        mask = torch.ones(1, 9, dtype=torch.bool)
        expected = small(torch.tensor(source), mask, torch.tensor([[2]]))[0, -1].log_softmax(-1).numpy()
    assert np.abs(expected[output.ids[0]] - output.scores[0]).max() < 0.05


@pytest.mark.parametrize("changes", [{"positions": "rotary"}, {"positions": "alibi"}, {"window": 4}])
def test_unsupported_encoders_are_not_calibrated(changes: dict[str, Any]) -> None:
    transformer = tiny(**changes)
    tensors = tensors_of(transformer)
    table = None if "positions" in changes else position_table(transformer.config, tensors)
    assert for_int8(transformer.config, tensors, table) is tensors


def test_tensors_of_wrong_shape_are_returned_unchanged() -> None:
    transformer = tiny()
    tensors = tensors_of(transformer)
    table = position_table(transformer.config, tensors)
    tensors["embedding.weight"] = tensors["embedding.weight"][:5]
    assert for_int8(transformer.config, tensors, table) is tensors
