"""Text, vocabulary and shards of a tiny training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.models.tiny_training import made_sentences, tiny_recipe
from training import commands


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with data, vocabulary and shards, prepared once."""
    folder = tmp_path_factory.mktemp("training")
    train, dev = folder / "train.en-de.tsv", folder / "dev.en-de.tsv"
    lines = [f"made\t{a}\t{b}" for a, b in made_sentences(800, 1)] + ["rare\tnever\tnie"]
    train.write_text("\n".join(lines) + "\n", encoding="utf-8")
    dev.write_text("".join(f"{a}\t{b}\n" for a, b in made_sentences(30, 2)), encoding="utf-8")
    commands.prepare(tiny_recipe(folder), folder / "run")
    return folder
