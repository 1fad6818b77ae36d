"""Recipes, and the errors of wrong ones."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from model.config import PRESETS
from model.transformer import Transformer
from training import commands
from training import recipe as recipes
from training.commands import build_trainer
from training.loop.optimizers import build_optimizers
from training.recipe import load_recipe

_FOLDER = Path(recipes.__file__).parent / "recipes"


@pytest.mark.parametrize("path", [*_FOLDER.glob("*.toml"), *Path("weights").glob("*/recipe.toml")])
def test_recipes_are_valid(path: Path) -> None:
    recipe = load_recipe(path)
    narrow = {**recipe.model, "d_model": 32, "heads": 2, "d_ff": 32}
    build_optimizers(Transformer(PRESETS[recipe.preset](200, **narrow)), recipe.train)


@pytest.mark.slow
def test_the_paper_recipe_lowers_the_loss(tmp_path: Path) -> None:
    pairs = [(f"a{i % 7} b{i % 5} c{i % 3}", f"x{i % 7} y{i % 5} z{i % 3}") for i in range(400)]
    train = tmp_path / "train.en-de.tsv"
    train.write_text("".join(f"made\t{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    paper = load_recipe(_FOLDER / "paper.toml")
    assert (paper.train.optimizer, paper.train.schedule, paper.model["dropout"]) == (
        "adam",
        "noam",
        0.1,
    )
    small = dataclasses.replace(
        paper,
        languages=("en", "de"),
        model={**paper.model, "d_model": 32, "heads": 4, "d_ff": 64},
        data=dataclasses.replace(paper.data, files=(str(train),), development=(), max_tokens=40),
        vocabulary=dataclasses.replace(paper.vocabulary, size=300),
        train=dataclasses.replace(paper.train, steps=60, warmup=20, batch_tokens=840),
    )
    commands.prepare(small, tmp_path / "run")
    trainer = build_trainer(small, tmp_path / "run")
    assert (len(trainer.model.encoder), len(trainer.model.decoder)) == (6, 6)
    trainer.run()
    lines = [
        json.loads(line)
        for line in (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0] - 0.3


_DATA = 'name="a"\nlanguages=["en", "de"]\n[data]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "not TOML"),
        ('name = "a"', "languages"),
        ('name="a"\nlanguages=["en"]\nfoo=1', "foo"),
        ('name="a"\nlanguages=["en"]\n[train]\nspeed=1', "speed"),
        (
            'name="a"\nlanguages=["en"]\n[train]\nalign=0',
            r"\[train\] align must be at least 1, not 0",
        ),
        (
            'name="a"\nlanguages=["en"]\n[train]\nlogit_steps=0',
            r"\[train\] logit_steps must be at least 1",
        ),
        (
            'name="a"\nlanguages=["en"]\npreset="tiny"',
            "preset must be one of base, big, small, not 'tiny'",
        ),
        ('name="a"\nlanguages=["en"]\n[model]\nwidth=8', r"\[model\] has unknown keys: width"),
        (
            'name="a"\nlanguages=["en"]\n[model]\nheads=7',
            r"\[model\]: d_model 512 must be divisible",
        ),
        (
            f'{_DATA}one_way={{dict="de-fr"}}',
            r"\[data.one_way\] has 'de-fr', which is none of the directions en-de, de-en",
        ),
        (f'{_DATA}back_translated={{bt="en-it"}}', r"\[data.back_translated\] has 'en-it'"),
        (
            f'{_DATA}one_way={{bt="en-de"}}\nback_translated={{bt="en-de"}}',
            "bt is in .* leave one out",
        ),
        (
            'name="a"\nlanguages=["en"]\nsegment_length=600',
            "segment_length must be an integer from 0 to 512",
        ),
        (
            'name="a"\nlanguages=["en"]\n[generation]\nlength_penalty=9.0',
            "length_penalty must be a number from 0 to 5, not 9.0",
        ),
        (
            'name="a"\nlanguages=["en"]\n[generation]\nbeam_threshold=-1',
            "beam_threshold must be .* at least 0, not -1",
        ),
        (
            'name="a"\nlanguages=["en"]\n[generation]\nbeam=4',
            r"\[generation\] has unknown keys: beam",
        ),
        (
            'name="a"\nlanguages=["en"]\nsegment_length=60\n[model]\nmax_length=50',
            "from 0 to 50, not 60",
        ),
    ],
)
def test_recipe_errors_name_the_key(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        load_recipe(tmp_path / "r.toml")
