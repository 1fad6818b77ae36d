"""Batches: rewritten pairs stay within the reserved widths, and the batches of a step have similar sizes."""

from __future__ import annotations

import dataclasses
from itertools import islice

import numpy as np
import pytest
import sentencepiece

from model.training.data.augment import Augmenter
from model.training.data.batches import Batches
from model.training.data.buckets import balanced
from model.training.data.shards import Shard
from model.training.data.vocabulary import SpecialIds
from model.training.recipe import DataRecipe, Recipe, RecipeError, TrainRecipe, VocabularyRecipe
from tests.support.tiny_training import small_vocabulary

_SPECIAL_IDS = SpecialIds(0, 2, 3, {"en": 4, "de": 5})
_TOKENS = 840


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> sentencepiece.SentencePieceProcessor:
    file = tmp_path_factory.mktemp("vocabulary") / "tokenizer.model"
    return small_vocabulary(file, ["a b c d e f"] * 9, 300, control_symbols=[">>en<<", ">>de<<"])


def _recipe(augment: dict[str, float]) -> Recipe:
    return Recipe(
        name="made", languages=("en", "de"), preset="small", model={}, data=DataRecipe(max_tokens=38, augment=augment),
        vocabulary=VocabularyRecipe(), train=TrainRecipe(batch_tokens=_TOKENS, align=1),
    )  # fmt: skip


def _shard(lengths: list[tuple[int, int]]) -> Shard:
    """Returns pairs of these lengths. Ids below 100 are English, ids from 100 on are of the other language."""
    pick = np.random.default_rng(1)
    sides = [
        np.concatenate([pick.integers(low, low + 90, pair[i]) for pair in lengths]) for i, low in ((0, 10), (1, 100))
    ]
    starts = [np.concatenate([[0], np.cumsum([pair[i] for pair in lengths])]) for i in (0, 1)]
    english, other = (side.astype(np.uint16) for side in sides)
    return Shard(english, other, starts[0], starts[1], np.zeros(len(lengths), np.uint8), ("made:de",))


def test_copied_pairs_with_a_longer_source_fit_their_row(processor: sentencepiece.SentencePieceProcessor) -> None:
    shard = _shard([(35, 4), (4, 35), (20, 9)] * 200)
    batches = Batches(shard, _recipe({"copy": 1.0}), _SPECIAL_IDS, Augmenter(processor, {"copy": 1.0}), _TOKENS)
    for _, _, batch in islice(batches.stream(), 40):
        for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True):
            copied = [i for i in source[1:] if i]
            read = [i for i in target[1:] if i]
            assert copied[-1] == _SPECIAL_IDS.end
            assert copied[: len(read)] == [*read, _SPECIAL_IDS.end][: len(read)]
            assert len(copied) - len(read) in (0, 1)  # the end is not an input of the decoder


def test_unchanged_pairs_are_complete_beside_copied_ones(processor: sentencepiece.SentencePieceProcessor) -> None:
    shard = _shard([(12, 10)] * 500)
    batches = Batches(shard, _recipe({"copy": 0.5}), _SPECIAL_IDS, Augmenter(processor, {"copy": 0.5}), _TOKENS)
    pairs = {
        tuple(side[at[i] : at[i + 1]].tolist())
        for side, at in ((shard.english, shard.english_offsets), (shard.other, shard.other_offsets))
        for i in range(500)
    }
    for _, _, batch in islice(batches.stream(), 8):
        for row in batch.source.tolist():
            assert tuple(row[1 : row.index(_SPECIAL_IDS.end)]) in pairs


def test_ranks_begin_an_epoch_at_the_same_step() -> None:
    shard = _shard([(20, 9)] * 200)
    whole = len(Batches(shard, _recipe({}), _SPECIAL_IDS, None, _TOKENS)._plan_epoch(0))
    ranks = whole - 1  # one batch is left over
    parts = [Batches(shard, _recipe({}), _SPECIAL_IDS, None, _TOKENS, rank=rank, ranks=ranks) for rank in range(ranks)]
    steps = [[(epoch, index // ranks) for epoch, index, _ in islice(part.stream(), 5)] for part in parts]
    assert steps == [[(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]] * ranks


def test_batches_of_one_step_have_similar_sizes() -> None:
    random = np.random.default_rng(1)
    sizes = random.integers(1000, 4000, 1003)
    order = random.permutation(len(sizes))
    found = balanced(order, sizes, 2, random)
    assert sorted(found.tolist()) == list(range(1003))
    before, after = (np.abs(np.diff(sizes[one[:1000]].reshape(-1, 2))).mean() for one in (order, found))
    assert after < before / 4
    # Batches stay in their window, so that lengths do not rise over the epoch.
    assert all(set(order[at : at + 16]) == set(found[at : at + 16]) for at in range(0, 1003, 16))


_NO_IDS, _NO_OFFSETS = np.zeros(0, np.uint16), np.zeros(1, np.int64)
_EMPTY = Shard(_NO_IDS, _NO_IDS, _NO_OFFSETS, _NO_OFFSETS, np.zeros(0, np.uint8), ())


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("shard", "weight"), [(_shard([(20, 9)] * 9), 0.0), (_EMPTY, 1.0)])
def test_an_epoch_without_pairs_is_refused(ranks: int, shard: Shard, weight: float) -> None:
    recipe = _recipe({})
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, default_weight=weight))
    batches = Batches(shard, recipe, _SPECIAL_IDS, None, _TOKENS, ranks=ranks)
    with pytest.raises(RecipeError, match="Epoch 0 has no pairs"):
        next(batches.stream())
