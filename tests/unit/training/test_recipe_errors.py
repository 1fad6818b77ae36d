"""The error of a wrong recipe names the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.recipe import load_recipe

_DATA = 'name="a"\nlanguages=["en", "de"]\n[data]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "not TOML"),
        ('name = "a"', "languages"),
        ('name="a"\nlanguages=["en"]\nfoo=1', "foo"),
        ('name="a"\nlanguages=["en"]\n[train]\nspeed=1', "speed"),
        ('name="a"\nlanguages=["en"]\n[train]\nalign=0', r"\[train\] align must be at least 1, not 0"),
        ('name="a"\nlanguages=["en"]\n[train]\nlogit_steps=0', r"\[train\] logit_steps must be at least 1"),
        ('name="a"\nlanguages=["en"]\npreset="tiny"', "preset must be one of base, big, small, not 'tiny'"),
        ('name="a"\nlanguages=["en"]\n[model]\nwidth=8', r"\[model\] has unknown keys: width"),
        ('name="a"\nlanguages=["en"]\n[model]\nheads=7', r"\[model\]: d_model 512 must be divisible"),
        (
            f'{_DATA}one_way={{dict="de-fr"}}',
            r"\[data.one_way\] has 'de-fr', which is none of the directions en-de, de-en",
        ),
        (f'{_DATA}back_translated={{bt="en-it"}}', r"\[data.back_translated\] has 'en-it'"),
        (f'{_DATA}one_way={{bt="en-de"}}\nback_translated={{bt="en-de"}}', "bt is in .* leave one out"),
        ('name="a"\nlanguages=["en"]\nsegment_length=600', "segment_length must be an integer from 0 to 512"),
        (
            'name="a"\nlanguages=["en"]\n[generation]\nlength_penalty=9.0',
            "length_penalty must be a number from 0 to 5, not 9.0",
        ),
        ('name="a"\nlanguages=["en"]\n[generation]\nbeam_threshold=-1', "beam_threshold must be .* at least 0, not -1"),
        ('name="a"\nlanguages=["en"]\n[generation]\nbeam=4', r"\[generation\] has unknown keys: beam"),
        ('name="a"\nlanguages=["en"]\nsegment_length=60\n[model]\nmax_length=50', "from 0 to 50, not 60"),
    ],
)
def test_recipe_errors_name_the_key(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        load_recipe(tmp_path / "r.toml")
