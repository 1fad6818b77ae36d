"""Sampling rates follow the weights, the temperature and the sources of one direction."""

from __future__ import annotations

import pytest

from tests.support.models.tiny_training import made_recipe, random_shard
from training.data.sampling import sampling_rates, target_tokens
from training.data.shards import Shard
from training.recipe import RecipeError


@pytest.fixture
def shard() -> Shard:
    return random_shard({"talk:de": 30, "news:fr": 300})


def test_temperature_increases_the_share_of_small_directions(shard: Shard) -> None:
    shares = []
    for temperature in (1.0, 2.0, 1e9):
        tokens = sampling_rates(shard, made_recipe(temperature=temperature)) * target_tokens(shard)
        shares.append(float(tokens[0].sum() / tokens.sum()))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] == pytest.approx(0.5, abs=0.01)
    assert sampling_rates(shard, made_recipe(temperature=5.0)).min() == 1.0  # the largest direction is not changed


def test_sources_may_be_used_in_one_direction_only(shard: Shard) -> None:
    assert sampling_rates(shard, made_recipe(one_way={"talk": "de-en"})).tolist() == [[0.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("table", ["one_way", "back_translated"])
def test_a_source_without_pairs_has_no_direction(shard: Shard, table: str) -> None:
    with pytest.raises(RecipeError, match=rf"\[data.{table}\] names tlak, and no pair"):
        sampling_rates(shard, made_recipe(**{table: {"talk": "de-en", "tlak": "de-en"}}))
