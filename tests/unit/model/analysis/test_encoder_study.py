"""The numbers of an encoder's layers, and that it is blind to the order of words without positions."""

from __future__ import annotations

import pytest
import torch

from model.analysis.encoder_study import encode, remove_positions
from tests.support.models.random_models import VARIANTS, random_model

pytestmark = pytest.mark.numeric
IDS, ORDER = [4, 9, 17, 23, 30, 12], [3, 0, 5, 1, 4, 2]


@pytest.mark.parametrize("variant", VARIANTS)
@torch.inference_mode()
def test_without_positions_the_order_of_the_words_changes_nothing(variant: str) -> None:
    """The paper, section 3.5: without positions "Cat eats fish" is "Fish eats cat"."""
    model = random_model(variant)
    sentences = [IDS, [IDS[i] for i in ORDER]]
    (first, second), _ = encode(model, sentences)
    assert (second - first[ORDER]).abs().max() > 0.01 * first.abs().max()
    remove_positions(model)
    (first, second), _ = encode(model, sentences)
    torch.testing.assert_close(second, first[ORDER], rtol=1e-4, atol=1e-4 * float(first.abs().max()))
