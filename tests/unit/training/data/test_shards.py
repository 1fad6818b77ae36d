"""Shards are loaded as they were saved; missing, partial and damaged files are reported."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.models.tiny_training import random_shard, tiny_recipe
from training.data import shards
from training.data.shards import Shard, shard_file, tokenise
from training.recipe import RecipeError


def test_a_loaded_shard_equals_the_saved_one(tmp_path: Path) -> None:
    saved = random_shard({"talk:de": 20, "news:fr": 30})
    saved.save(tmp_path, "pairs")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.npz"]
    loaded = Shard.load(tmp_path, "pairs")
    for name in ("english", "other", "english_offsets", "other_offsets", "group"):
        assert np.array_equal(getattr(loaded, name), getattr(saved, name)), name
        assert getattr(loaded, name).dtype == getattr(saved, name).dtype, name
    assert loaded.groups == saved.groups


def test_a_vocabulary_with_ids_of_more_than_16_bits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor = SimpleNamespace(get_piece_size=lambda: 70_000)
    monkeypatch.setattr(shards.sentencepiece, "SentencePieceProcessor", lambda model_file: processor)
    with pytest.raises(RecipeError, match="70000 pieces"):
        tokenise(tiny_recipe(tmp_path), tmp_path / "tokenizer.model")


def test_missing_and_damaged_files_raise_errors_with_their_names(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no pairs\.npz"):
        Shard.load(tmp_path, "pairs")
    random_shard({"talk:de": 20, "news:fr": 30}).save(tmp_path, "pairs")
    path = shard_file(tmp_path, "pairs")
    data = path.read_bytes()
    middle = len(data) // 4
    for damaged in (data[:-9], b"", data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]):
        path.write_bytes(damaged)
        with pytest.raises(RecipeError, match=r"pairs\.npz is damaged"):
            Shard.load(tmp_path, "pairs")
