"""The encoder's layers in NumPy: equal to PyTorch, and without positions blind to the order of the words.

Sums in another order: 1e-4 of the largest number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.analysis.encoder_layers import LayerRecord, embedded, encoder_layers, encoder_output, encoder_parameters
from model.backends.cpu.tensors import position_table
from model.transformer import Transformer
from tests.support.random_models import VARIANTS, random_ids, random_model

pytestmark = pytest.mark.numeric


def tensors_of(model: Transformer) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def embeddings_of(model: Transformer, ids: list[int]) -> np.ndarray:
    matrix = model.embedding if model.config.tied_embeddings else model.source_embedding
    return matrix.weight.detach().numpy()[ids]


def run(model: Transformer, ids: list[int], *, positions: bool = True) -> tuple[list[LayerRecord], np.ndarray]:
    config, tensors = model.config, tensors_of(model)
    sentence = embedded(config, embeddings_of(model, ids), position_table(config, tensors), positions=positions)
    records = [record for [record] in encoder_layers(config, tensors, [sentence])]
    return records, encoder_output(config, tensors, records[-1].output)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_output_equals_that_of_pytorch(variant: str) -> None:
    model = random_model(variant)
    ids = random_ids(model.config, 1, longest=20)[0]
    with torch.no_grad():
        expected = model.encode(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))[0].numpy()
    np.testing.assert_allclose(run(model, ids)[1], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_positions_the_order_of_the_words_changes_nothing(variant: str) -> None:
    """The paper, section 3.5: without positions "Cat eats fish" is "Fish eats cat"."""
    model = random_model(variant)
    ids = [4, 9, 17, 23, 30, 12]
    order = [3, 0, 5, 1, 4, 2]
    moved = [ids[i] for i in order]
    first, second = run(model, ids, positions=False)[1], run(model, moved, positions=False)[1]
    np.testing.assert_allclose(second, first[order], rtol=1e-4, atol=1e-4 * np.abs(first).max())
    first, second = run(model, ids)[1], run(model, moved)[1]
    assert np.abs(second - first[order]).max() > 0.01 * np.abs(first).max()


@pytest.mark.parametrize("variant", ["the paper's", "pre-norm"])
def test_every_sublayer_adds_to_what_the_residual_carries(variant: str) -> None:
    """LayerNorm(x + Sublayer(x)) in post-norm models, x + Sublayer(LayerNorm(x)) in pre-norm models."""
    model = random_model(variant)
    ids = random_ids(model.config, 1)[0]
    added: list[float] = []

    def record(_: object, __: object, output: torch.Tensor) -> None:
        added.append(float(output[0].norm(dim=-1)[0]))

    for layer in model.encoder:
        layer.self_attention.output.register_forward_hook(record)
        layer.feed_forward.register_forward_hook(record)
    with torch.no_grad():
        model.encode(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))
    records = run(model, ids)[0]
    assert added == pytest.approx([x for r in records for x in (r.attention[0], r.feed_forward[0])], rel=1e-3)
    if variant == "pre-norm":
        assert all(
            abs(r.carried_past_feed_forward - r.carried_past_attention).max() <= r.attention.max() + 1e-4
            for r in records
        )


def test_units_of_relu_are_zero_or_active() -> None:
    """The paper, section 3.3: max(0, x W1 + b1) W2 + b2."""
    model = random_model()
    records = run(model, random_ids(model.config, 1)[0])[0]
    for record in records:
        assert record.units.shape[1] == model.config.d_ff and (record.units >= 0).all()
        assert 0 < (record.units > 0).mean() < 1


def test_parameters_are_those_of_the_matrices() -> None:
    model = random_model()
    matrices = sum(p.numel() for name, p in model.encoder.named_parameters() if p.dim() == 2)
    assert encoder_parameters(model.config) == matrices
