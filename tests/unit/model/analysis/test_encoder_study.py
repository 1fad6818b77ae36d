"""The numbers of an encoder's layers, and that it is blind to the order of words without positions."""

from __future__ import annotations

import pytest
import torch

from model.analysis.encoder_study import FOLDS, encode, layer_numbers, position_fit, remove_positions
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


@pytest.mark.parametrize("variant", ["the paper's", "pre-norm"])
@torch.inference_mode()
def test_carried_and_added_by_attention_is_what_enters_the_feed_forward_network(variant: str) -> None:
    model = random_model(variant)
    layer = model.encoder[0]
    bias = layer.feed_forward.inner.bias
    bias[:] = torch.tensor([-1e3, 1e3]).repeat(len(bias) // 2)  # half of the units are active
    numbers, (_, passed) = layer_numbers(model, IDS)[0], encode(model, [IDS])
    attention = passed[layer.self_attention.output][1]
    between = layer.attention_residual.leave(passed[layer][0], attention)
    assert numbers["attention"] == attention[0].norm(dim=-1).tolist() and numbers["active"] == [0.5] * len(IDS)
    assert numbers["carried_past_feed_forward"] == pytest.approx(between[0].norm(dim=-1).tolist())


def test_places_are_read_from_vectors_that_have_them() -> None:
    places, folds = torch.arange(5).repeat(20), torch.arange(20).repeat_interleave(5) % FOLDS
    without = torch.randn(100, 8, generator=torch.Generator().manual_seed(0))
    with_places = torch.cat([without, places[:, None]], dim=1)
    assert position_fit(without, places, folds) < 0.2 < 0.9 < position_fit(with_places, places, folds) <= 1
