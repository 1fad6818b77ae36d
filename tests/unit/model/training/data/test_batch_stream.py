"""The stream of batches fills its shapes, covers every pair, resumes and is shared by ranks."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch

from model.training.data.batch import IGNORED
from model.training.data.batches import Batches
from model.training.data.shards import Shard
from model.training.data.vocabulary import SpecialIds
from tests.support.tiny_training import tiny_recipe


def test_batches_fill_their_shape_and_cover_every_pair(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    recipe = tiny_recipe(prepared)
    batches = Batches(shard, recipe, SpecialIds(0, 2, 3, {"en": 4, "de": 5}), None, 840)
    seen: list[int] = []
    for plan in batches._plan_epoch(0):
        seen.extend(plan.examples.tolist())
    assert len(seen) == len(set(seen))
    assert len(seen) > 0.9 * 2 * len(shard.group)
    for _, _, batch in itertools.islice(batches.stream(), 5):
        assert max(batch.source.numel(), batch.target.numel()) <= 840
        assert batch.target.shape[1] % recipe.train.align == 0
        assert batch.tokens == int((batch.labels != IGNORED).sum())
        assert batch.source_tokens == int((batch.source != 0).sum())


def test_a_stream_resumes_in_the_middle_of_an_epoch(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    batches = Batches(shard, tiny_recipe(prepared), SpecialIds(0, 2, 3, {"en": 4, "de": 5}), None, 840)
    whole = list(itertools.islice(batches.stream(), 8))
    later = list(itertools.islice(batches.stream(0, 5), 3))
    for (_, index, batch), (_, again, same) in zip(whole[5:], later, strict=True):
        assert index == again
        assert torch.equal(batch.source, same.source)


def test_ranks_share_the_batches(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    specials = SpecialIds(0, 2, 3, {"en": 4, "de": 5})
    parts = [Batches(shard, tiny_recipe(prepared), specials, None, 840, rank=r, ranks=2) for r in range(2)]
    indices = [[index for _, index, _ in itertools.islice(part.stream(), 3)] for part in parts]
    assert indices == [[0, 2, 4], [1, 3, 5]]
