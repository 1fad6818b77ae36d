"""The prepared files of a training: written once, and without sources of weight 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.models.tiny_training import run_folder, tiny_recipe
from training import commands
from training.data.shards import Shard


def test_prepare_writes_a_missing_shard_and_keeps_the_vocabulary(prepared: Path, tmp_path: Path) -> None:
    folder = run_folder(prepared, tmp_path / "run")
    vocabulary, expected = (folder / "tokenizer.model").read_bytes(), Shard.load(folder, "pairs")
    (folder / "pairs.npz").unlink()
    (folder / "pairs.json").write_text("{}", encoding="utf-8")  # manifest of earlier versions
    commands.prepare(tiny_recipe(prepared), folder)
    assert (folder / "tokenizer.model").read_bytes() == vocabulary
    assert np.array_equal(Shard.load(folder, "pairs").english, expected.english)


def test_zero_weight_sources_are_left_out(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    assert shard.groups == ("made:de",)
