"""A tiny training: made-up sentence pairs, a recipe for them, and copies of a prepared folder."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from training.data.shards import Shard
from training.recipe import DataRecipe, Recipe, TrainRecipe, VocabularyRecipe, load_recipe

ENGLISH = "the cat dog bird house tree sees has likes big small red old one two".split()
GERMAN = "die Katze Hund Vogel Haus Baum sieht hat mag groß klein rot alt eins zwei".split()

_RECIPE = """
name = "tiny"
languages = ["en", "de"]
preset = "small"

[model]
d_model = 32
heads = 2
d_ff = 64
encoder_layers = 1
decoder_layers = 1
max_length = 64

[data]
files = ["{train}"]
development = ["{dev}"]
max_tokens = 40
[data.weights]
rare = 0.0
[data.augment]
lower = 0.1
upper = 0.1
bare = 0.1
copy = 0.1

[vocabulary]
size = 400

[train]
optimizer = "{optimizer}"
schedule = "{schedule}"
steps = {steps}
warmup = 5
batch_tokens = 840
checkpoint_minutes = 1000
validate_minutes = 1000
validate_sentences = 8
"""


def made_sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Returns English sentences of made-up grammar with their word-for-word translations."""
    pick = random.Random(seed)
    words = [
        [pick.randrange(len(ENGLISH)) for _ in range(pick.randint(2, 7))] for _ in range(count)
    ]
    return [
        (" ".join(ENGLISH[i] for i in line) + ".", " ".join(GERMAN[i] for i in line) + ".")
        for line in words
    ]


def tiny_recipe(
    folder: Path, *, optimizer: str = "adam", schedule: str = "wsd", steps: int = 6
) -> Recipe:
    """Writes a recipe for the text files in `folder` there, and returns it."""
    text = _RECIPE.format(
        train=folder / "train.en-de.tsv",
        dev=folder / "dev.en-de.tsv",
        optimizer=optimizer,
        schedule=schedule,
        steps=steps,
    )
    path = folder / f"{optimizer}-{schedule}-{steps}.toml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path)


def made_recipe(align: int = 1, **data: Any) -> Recipe:
    """Returns a recipe for English, German and French with these fields of [data]."""
    return Recipe(
        name="made",
        languages=("en", "de", "fr"),
        preset="small",
        model={},
        data=DataRecipe(max_tokens=38, **data),
        vocabulary=VocabularyRecipe(),
        train=TrainRecipe(batch_tokens=840, align=align),
    )


def random_shard(groups: dict[str, int], seed: int = 1) -> Shard:
    """Returns a shard with a number of pairs of each group, of 1 to 11 English and 1 to 29 other
    tokens."""
    draw = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(groups)), list(groups.values())).astype(np.uint16)
    lengths = [draw.integers(1, longest, len(group)) for longest in (12, 30)]
    offsets = [np.concatenate([[0], np.cumsum(side)]).astype(np.int64) for side in lengths]
    english, other = (draw.integers(10, 500, int(side.sum())).astype(np.uint16) for side in lengths)
    return Shard(english, other, offsets[0], offsets[1], group, tuple(groups))


def run_folder(prepared: Path, target: Path) -> Path:
    """Copies the prepared files to the new folder `target`."""
    target.mkdir()
    for file in (prepared / "run").iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def small_vocabulary(
    file: Path, texts: Iterable[str], size: int = 400, **options: Any
) -> sentencepiece.SentencePieceProcessor:
    """Trains a SentencePiece vocabulary with byte fallback, writes it to `file` and returns it."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(file.with_suffix("")),
        vocab_size=size,
        hard_vocab_limit=False,
        byte_fallback=True,
        minloglevel=2,
        **{"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, **options},
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(file))
