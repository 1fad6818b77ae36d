"""Epochs and their batches contain the pairs at the rates of the recipe."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from model.training.data.batch import IGNORED
from model.training.data.batches import Batches
from model.training.data.sampling import sampling_rates, target_tokens
from model.training.data.shards import Shard
from model.training.data.vocabulary import SpecialIds
from model.training.plan import describe
from model.training.recipe import DataRecipe, Recipe, RecipeError, TrainRecipe, VocabularyRecipe

_SPECIAL_IDS = SpecialIds(0, 2, 3, {"en": 4, "de": 5, "fr": 6})


def _recipe(**data: object) -> Recipe:
    return Recipe(
        name="r", languages=("en", "de", "fr"), preset="small", model={}, data=DataRecipe(max_tokens=40, **data),  # type: ignore[arg-type]
        vocabulary=VocabularyRecipe(), train=TrainRecipe(align=8, minutes=1.0),
    )  # fmt: skip


@pytest.fixture
def shard() -> Shard:
    """Returns a shard of 30 short German pairs and 300 French pairs."""
    draw = np.random.default_rng(1)
    lengths = [draw.integers(1, 12, 330), draw.integers(1, 30, 330)]
    starts = [np.concatenate([[0], np.cumsum(side)]) for side in lengths]
    sides = [draw.integers(10, 500, int(side.sum())).astype(np.uint16) for side in lengths]
    group = np.array([0] * 30 + [1] * 300, dtype=np.uint8)
    return Shard(sides[0], sides[1], starts[0], starts[1], group, ("talk:de", "news:fr"))


def test_temperature_increases_the_share_of_small_directions(shard: Shard) -> None:
    shares = []
    for temperature in (1.0, 2.0, 1e9):
        tokens = sampling_rates(shard, _recipe(temperature=temperature)) * target_tokens(shard)
        shares.append(float(tokens[0].sum() / tokens.sum()))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] == pytest.approx(0.5, abs=0.01)
    assert sampling_rates(shard, _recipe(temperature=5.0)).min() == 1.0  # the largest direction is not changed


def test_sources_may_be_used_in_one_direction_only(shard: Shard) -> None:
    assert sampling_rates(shard, _recipe(one_way={"talk": "de-en"})).tolist() == [[0.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("table", ["one_way", "back_translated"])
def test_a_source_without_pairs_has_no_direction(shard: Shard, table: str) -> None:
    with pytest.raises(RecipeError, match=rf"\[data.{table}\] names tlak, and no pair"):
        sampling_rates(shard, _recipe(**{table: {"talk": "de-en", "tlak": "de-en"}}))


def test_an_epoch_has_the_planned_tokens(shard: Shard) -> None:
    recipe = _recipe(weights={"news": 0.5}, directions={"de-en": 2.0}, temperature=3.0, domains={"press": ["news"]})
    planned = float((sampling_rates(shard, recipe) * target_tokens(shard)).sum())
    batches = Batches(shard, recipe, _SPECIAL_IDS, None, 840)
    drawn = []
    for epoch in range(20):
        examples = batches._sample(np.random.default_rng(epoch))
        drawn.append(int((batches._lengths(examples)[1]).sum()))
    assert np.mean(drawn) == pytest.approx(planned, rel=0.02)
    table = describe(shard, recipe, speed=1000.0)
    assert "| press |" in table
    assert f"{planned / 1e6:.1f} M" in table
    assert "epochs" in table


def test_every_row_is_a_pair_of_the_shard(shard: Shard) -> None:
    batches = Batches(shard, _recipe(), _SPECIAL_IDS, None, 840)
    expected = set()
    for i, group in enumerate(shard.group):
        english = tuple(shard.english[shard.english_offsets[i] : shard.english_offsets[i + 1]].tolist())
        other = tuple(shard.other[shard.other_offsets[i] : shard.other_offsets[i + 1]].tolist())
        expected |= {((5, 6)[group], *english, 3, -1, 2, *other, 3), (4, *other, 3, -1, 2, *english, 3)}
    seen = 0
    for epoch, _, batch in batches.stream():
        if epoch > 0:
            break
        assert batch.source.shape[1] % 8 == 0
        count, width = batch.target.shape
        labels = torch.full((count * width,), 0)
        real = batch.labels != IGNORED
        labels[batch.label_positions[real]] = batch.labels[real]
        for source, target, following in zip(batch.source, batch.target, labels.view(count, width), strict=True):
            left, right = source[source != 0].tolist(), target[target != 0].tolist()
            label = following[following != 0].tolist()
            if len(right) < len(label) + 1 and right[-1] != 3:  # the row fills its width, so the end is only a label
                right.append(3)
            assert label == right[1:]
            assert (*left, -1, *right) in expected
            seen += 1
    assert seen > 600


class _Sevens:
    """A test double of Augmenter that replaces both sides of every third example by `length` sevens."""

    def __init__(self, length: int) -> None:
        self._length = length

    def choose_kinds(self, count: int, random: np.random.Generator) -> np.ndarray:
        return (np.arange(count) % 3 == 0).astype(np.int64)

    def reserved_lengths(
        self, kinds: np.ndarray, sources: np.ndarray, targets: np.ndarray, longest: int
    ) -> tuple[np.ndarray, ...]:
        return tuple(np.where(kinds > 0, np.maximum(lengths, 20), lengths) for lengths in (sources, targets))

    def rewrite(
        self, number: int, source: np.ndarray, target: np.ndarray, random: object, language: str
    ) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self._length, 7), np.full(self._length, 7)


@pytest.mark.parametrize(("length", "changed"), [(17, True), (99, False)])
def test_rewritten_rows_are_complete_or_unchanged(shard: Shard, length: int, changed: bool) -> None:
    batches = Batches(shard, _recipe(), _SPECIAL_IDS, _Sevens(length), 840)  # type: ignore[arg-type]
    found = 0
    for _, _, batch in itertools.islice(batches.stream(), 15):
        assert batch.source.numel() <= 840
        for source in batch.source:
            if 7 in source:
                assert source[source != 0].tolist()[1:] == [7] * length + [3]
                found += 1
    assert (found > 0) == changed
