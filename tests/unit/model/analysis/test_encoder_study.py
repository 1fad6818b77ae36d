"""The layers of an encoder: what they add up to, and that they are blind to the order of words without positions."""

from __future__ import annotations

import pytest
import torch

from model.analysis.encoder_study import FOLDS, encode, position_fit, remove_positions
from tests.support.models.random_models import VARIANTS, random_model

pytestmark = pytest.mark.numeric
IDS, ORDER = [4, 9, 17, 23, 30, 12], [3, 0, 5, 1, 4, 2]


@pytest.mark.parametrize("variant", VARIANTS)
@torch.inference_mode()
def test_without_positions_the_order_of_the_words_changes_nothing(variant: str) -> None:
    """The paper, section 3.5: without positions "Cat eats fish" is "Fish eats cat"."""
    model = random_model(variant)
    moved = [IDS[i] for i in ORDER]
    first, second = encode(model, IDS)[1], encode(model, moved)[1]
    assert (second - first[ORDER]).abs().max() > 0.01 * first.abs().max()
    remove_positions(model)
    first, second = encode(model, IDS)[1], encode(model, moved)[1]
    torch.testing.assert_close(second, first[ORDER], rtol=1e-4, atol=1e-4 * float(first.abs().max()))


@pytest.mark.parametrize("variant", ["the paper's", "pre-norm"])
@torch.inference_mode()
def test_every_sublayer_adds_to_what_the_residual_carries(variant: str) -> None:
    """LayerNorm(x + Sublayer(x)) in post-norm models, x + Sublayer(LayerNorm(x)) in pre-norm models."""
    model = random_model(variant)
    for layer, record in zip(model.encoder, encode(model, IDS)[0], strict=True):
        x, output = record[""]
        between = x + record["self_attention.output"][1]
        if variant == "pre-norm":
            expected = between + layer.feed_forward(layer.feed_forward_residual.norm(between))
        else:
            between = layer.attention_residual.norm(between)
            expected = layer.feed_forward_residual.norm(between + record["feed_forward"][1])
        torch.testing.assert_close(output, expected)
        units = record["feed_forward.outer"][0]
        torch.testing.assert_close(record["feed_forward"][1], layer.feed_forward.outer(units))


@torch.inference_mode()
def test_places_are_read_from_vectors_that_have_them() -> None:
    places = [torch.arange(length) for length in (3, 4, 5, 6, 7) * FOLDS]
    noise = torch.Generator().manual_seed(0)
    without = [torch.randn(len(place), 8, generator=noise) for place in places]
    with_places = [torch.cat([x, place[:, None]], dim=1) for x, place in zip(without, places, strict=True)]
    assert position_fit(without, places) < 0.2 < 0.9 < position_fit(with_places, places) <= 1
