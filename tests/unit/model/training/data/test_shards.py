"""Tokenised pairs survive the way to disk in parts, and a part that is missing or damaged is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.training.data import shards
from model.training.data.shards import Shard
from model.training.recipe import RecipeError


def random_shard(pairs: int = 50, seed: int = 1) -> Shard:
    draw = np.random.default_rng(seed)
    sides, starts = [], []
    for _ in range(2):
        lengths = draw.integers(1, 30, pairs)
        starts.append(np.concatenate([[0], np.cumsum(lengths)]))
        sides.append(draw.integers(10, 60_000, int(lengths.sum())).astype(np.uint16))
    group = draw.integers(0, 2, pairs).astype(np.uint8)
    return Shard(sides[0], sides[1], starts[0], starts[1], group, ("talk:de", "news:fr"))


def test_parts_join_to_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_PART_TOKENS", 300)
    whole = random_shard()
    whole.save(tmp_path, "pairs")
    files = sorted(tmp_path.glob("pairs-*.npz"))
    assert len(files) > 3
    joined = Shard.load(tmp_path, "pairs")
    for name in ("english", "other", "english_at", "other_at", "group"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name)), name
    assert joined.groups == whole.groups
    assert joined.english.dtype == np.uint16


def test_a_pair_longer_than_a_part_is_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_PART_TOKENS", 1)
    whole = random_shard(5)
    whole.save(tmp_path, "pairs")
    assert len(list(tmp_path.glob("pairs-*.npz"))) == 5
    assert np.array_equal(Shard.load(tmp_path, "pairs").other, whole.other)


def test_missing_and_damaged_parts_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RecipeError, match=r"no pairs\.json"):
        Shard.load(tmp_path, "pairs")
    monkeypatch.setattr(shards, "_PART_TOKENS", 300)
    random_shard().save(tmp_path, "pairs")
    second = tmp_path / "pairs-001.npz"
    data = second.read_bytes()
    second.write_bytes(data[:-1])
    with pytest.raises(RecipeError, match=r"lacks pairs-001\.npz"):
        Shard.load(tmp_path, "pairs")
    second.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(RecipeError, match=r"pairs-001\.npz"):
        Shard.load(tmp_path, "pairs")
    second.write_bytes(data)
    Shard.load(tmp_path, "pairs")
