"""Batches have the pairs of the shard at the rates of the recipe, complete and within their widths, and resume anywhere."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.models.tiny_training import made_recipe, random_shard, small_vocabulary
from training.data.augment import Augmenter
from training.data.batches import PADDING, Batch, Batches
from training.data.processes import BatchProcesses
from training.data.sampling import sampling_rates, target_tokens
from training.data.shards import Shard
from training.data.vocabulary import SpecialIds
from training.recipe import RecipeError

_IDS = SpecialIds(2, 3, {"en": 4, "de": 5, "fr": 6})
_TOKENS = 840


@pytest.fixture
def shard() -> Shard:
    return random_shard({"talk:de": 30, "news:fr": 300})


def _epoch(batches: Batches, epoch: int = 0) -> list[Batch]:
    return [batch for _, _, batch in takewhile(lambda item: item[0] == epoch, batches.stream(epoch))]


def _rows(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Returns source and target of each pair without padding."""
    sides = ([tuple(row[row != PADDING].tolist()) for row in side] for side in (batch.source, batch.target))
    return list(zip(*sides, strict=True))


@pytest.mark.parametrize("multiple", [1, 4])
def test_every_row_of_an_epoch_is_a_pair_of_the_shard(shard: Shard, multiple: int) -> None:
    pairs = Counter[object]()
    for i, group in enumerate(shard.group):
        english, other = (tuple(side.tolist()) for side in shard.pair(i))
        pairs[((5, 6)[group], *english, 3), (2, *other, 3)] += 1
        pairs[(4, *other, 3), (2, *english, 3)] += 1
    batches = _epoch(Batches(shard, made_recipe(align=8), _IDS, None, _TOKENS, multiple=multiple))
    assert sum(len(batch.source) % multiple > 0 for batch in batches) <= 1
    for batch in batches:
        assert batch.source.shape[1] % 8 == 0
        assert max(batch.source.numel(), batch.target[:, 1:].numel()) <= _TOKENS
        assert batch.tokens == int((batch.target[:, 1:] != PADDING).sum())
    rows = Counter[object](row for batch in batches for row in _rows(batch))
    assert rows <= pairs
    assert rows.total() > 0.9 * pairs.total()


def test_an_epoch_has_the_tokens_of_the_rates(shard: Shard) -> None:
    recipe = made_recipe(weights={"news": 0.5}, temperature=3.0)
    planned = float((sampling_rates(shard, recipe) * target_tokens(shard)).sum())
    batches = Batches(shard, recipe, _IDS, None, _TOKENS)
    drawn = [sum(batch.tokens for batch in _epoch(batches, epoch)) for epoch in range(20)]
    assert np.mean(drawn) == pytest.approx(planned, rel=0.02)


def test_only_pairs_of_one_language_are_drawn(shard: Shard) -> None:
    batches = _epoch(Batches(shard, made_recipe(), _IDS, None, _TOKENS, language="de"))
    assert {source[0] for batch in batches for source, _ in _rows(batch)} == {4, 5}
    assert sum(len(batch.source) for batch in batches) <= 60


def test_a_stream_resumes_in_the_middle_of_an_epoch(shard: Shard) -> None:
    batches = Batches(shard, made_recipe(), _IDS, None, _TOKENS)
    whole, resumed = islice(batches.stream(), 5, 8), islice(batches.stream(0, 5), 3)
    for (_, index, batch), (_, same_index, same) in zip(whole, resumed, strict=True):
        assert index == same_index
        assert torch.equal(batch.source, same.source)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_the_batches_and_begin_an_epoch_at_the_same_step(shard: Shard, ranks: int) -> None:
    whole = len(_epoch(Batches(shard, made_recipe(), _IDS, None, _TOKENS)))
    parts = [Batches(shard, made_recipe(), _IDS, None, _TOKENS, rank=rank, ranks=ranks) for rank in range(ranks)]
    steps = -(-whole // ranks)
    for rank, part in enumerate(parts):
        places = [(epoch, index) for epoch, index, _ in islice(part.stream(), steps + 1)]
        assert places == [*((0, ranks * step + rank) for step in range(steps)), (1, rank)]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("pairs", "weight"), [(9, 0.0), (0, 1.0)])
def test_an_epoch_without_pairs_is_refused(ranks: int, pairs: int, weight: float) -> None:
    shard = random_shard({"talk:de": pairs})
    batches = Batches(shard, made_recipe(default_weight=weight), _IDS, None, _TOKENS, ranks=ranks)
    with pytest.raises(RecipeError, match="Epoch 0 has no pairs"):
        next(batches.stream())


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
        self, number: int, source: np.ndarray, target: np.ndarray, random: np.random.Generator, language: str
    ) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self._length, 7), np.full(self._length, 7)


@pytest.mark.parametrize(("length", "changed"), [(17, True), (99, False)])
def test_rewritten_rows_are_complete_or_unchanged(shard: Shard, length: int, changed: bool) -> None:
    batches = Batches(shard, made_recipe(), _IDS, _Sevens(length), _TOKENS)  # type: ignore[arg-type]
    rewritten = [row for batch in _epoch(batches) for row in _rows(batch) if 7 in row[0]]
    assert all(row == ((row[0][0], *[7] * length, 3), (2, *[7] * length, 3)) for row in rewritten)
    assert bool(rewritten) == changed


def test_copied_pairs_with_a_longer_target_fit_their_row(shard: Shard, tmp_path: Path) -> None:
    augmenter = Augmenter(small_vocabulary(tmp_path / "t.model", ["a b c d e f"] * 9, 300), {"copy": 1.0})
    for batch in _epoch(Batches(shard, made_recipe(), _IDS, augmenter, _TOKENS)):
        assert batch.source.numel() <= _TOKENS
        assert all(source[1:] == target[1:] for source, target in _rows(batch))


class _Reordered(_Sevens):
    """A test double of Augmenter that reorders both sides of every third example at random."""

    def rewrite(
        self, number: int, source: np.ndarray, target: np.ndarray, random: np.random.Generator, language: str
    ) -> tuple[np.ndarray, np.ndarray]:
        return random.permutation(source), random.permutation(target)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more processes than cores
def test_processes_make_the_same_batches_in_the_same_order(shard: Shard) -> None:
    """From the middle of an epoch over the ends of several, as the second of two ranks, with pairs that
    are rewritten at random."""
    batches = Batches(shard, made_recipe(), _IDS, _Reordered(0), _TOKENS, rank=1, ranks=2)  # type: ignore[arg-type]
    expected = list(islice(batches.stream(1, 4), 40))
    assert expected[-1][0] > 2
    with closing(BatchProcesses(batches, 3).stream(1, 4)) as made:
        for (*place, batch), (*same_place, same) in zip(expected, made, strict=False):
            assert place == same_place and batch.tokens == same.tokens
            assert torch.equal(batch.source, same.source) and torch.equal(batch.target, same.target)
