"""The encoder in NumPy is that of PyTorch, and it is blind to the order of words without
positions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.analysis.encoder_study import FOLDS, moves, position_fit
from model.numpy_encoder import NumpyEncoder
from model.transformer import Transformer
from model.weight_files import position_table
from tests.support.models.random_models import VARIANTS, random_model

pytestmark = pytest.mark.numeric
IDS, ORDER = [4, 9, 17, 23, 30, 12], [3, 0, 5, 1, 4, 2]


def numpy_encoder(model: Transformer) -> tuple[NumpyEncoder, np.ndarray]:
    tensors = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    return NumpyEncoder(model.config, tensors), position_table(model.config, tensors)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.inference_mode()
def test_the_encoder_is_that_of_pytorch(variant: str) -> None:
    model = random_model(variant)
    encoder, positions = numpy_encoder(model)
    source = torch.tensor([IDS, IDS[::-1]])
    expected = model.encode(source, torch.ones_like(source, dtype=torch.bool)).numpy()
    states = encoder.run(source.numpy(), positions)
    assert len(states) == model.config.encoder_layers + 1 + (model.config.norm == "pre")
    np.testing.assert_allclose(states[-1], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_positions_the_order_of_the_words_changes_nothing(variant: str) -> None:
    """The paper, section 3.5: without positions "Cat eats fish" is "Fish eats cat"."""
    encoder, positions = numpy_encoder(random_model(variant))
    assert max(moves(encoder, IDS, ORDER, positions)) > 0.01
    assert max(moves(encoder, IDS, ORDER, np.zeros_like(positions))) < 1e-4


def test_places_are_read_from_vectors_that_have_them() -> None:
    places, folds = np.tile(np.arange(5), 20), np.repeat(np.arange(20), 5) % FOLDS
    without = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    with_places = np.concatenate([without, places[:, None].astype(np.float32)], axis=1)
    assert (
        position_fit(without, places, folds)
        < 0.2
        < 0.9
        < position_fit(with_places, places, folds)
        <= 1
    )
