"""Names of models, and the list of those that others publish."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from model.config import ModelConfig
from model.convert.published import folder_in, folder_of, full_name, pair_of, published_models
from model.model_folder import FolderError
from tests.support.models.folders import new_folder


@pytest.mark.parametrize(
    ("name", "full", "folder", "pair"),
    [
        ("en-de", "firefox/en-de", "firefox-en-de", ("en", "de")),
        ("fr-wls", "Helsinki-NLP/opus-mt-fr-wls", "opus-mt-fr-wls", ("fr", "wls")),
        ("eu-gl", "firefox/eu-gl", "firefox-eu-gl", ("eu", "gl")),  # in no list
        ("firefox/en-zh_hant", "firefox/en-zh_hant", "firefox-en-zh-hant", ("en", "zh-Hant")),
        ("argos/en-zt", "argos/en-zt", "argos-en-zt", ("en", "zh-Hant")),
        ("Helsinki-NLP/opus-mt-en-it", "Helsinki-NLP/opus-mt-en-it", "opus-mt-en-it", ("en", "it")),
        (
            "https://huggingface.co/facebook/m2m100_418M/tree/main",
            "facebook/m2m100_418M",
            "facebook--m2m100_418M",
            None,
        ),
        ("https://hf.co/a/b/", "a/b", "a--b", None),
    ],
)
def test_a_name_has_one_full_form_folder_and_pair(
    name: str, full: str, folder: str, pair: tuple[str, str] | None
) -> None:
    assert (full_name(name), folder_of(full_name(name)), pair_of(full_name(name))) == (full, folder, pair)
    assert full_name(full_name(name)) == full


@pytest.mark.parametrize(
    "name",
    [
        "",
        "german",
        "en_de",
        "../x",
        "a/../b",
        "x/y/z",
        "firefox/",
        "firefox/german",
        "https://evil.example/a/b",
        "-/-",
        "https://hf.co/a/b/tree/v1",
    ],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(FolderError, match="is not the name of a model"):
        full_name(name)


def test_the_list_has_firefox_first_and_only_stated_figures() -> None:
    models = published_models()
    assert len({model.name for model in models}) == len(models) > 1_000
    assert {model.publisher for model in models} == {"Mozilla", "University of Helsinki", "Argos Open Tech"}
    for model in models:
        assert model.source and model.target and model.license
        assert (model.publisher == "Mozilla") == (10_000_000 < model.bytes < 100_000_000)
        assert set(model.scores) in (set(), {"bleu", "comet"}) and (not model.scores or model.publisher == "Mozilla")
    best = next(model for model in models if (model.source, model.target) == ("en", "de"))
    assert (best.name, best.license, best.scores["bleu"]) == ("firefox/en-de", "MPL-2.0", 40.0)


def test_models_of_the_same_name_of_two_owners_have_folders_of_their_own(tmp_path: Path) -> None:
    names = [
        "Helsinki-NLP/opus-mt-en-good",
        "myteam/opus-mt-en-good",
        "my/team-opus-mt-en-good",
        "team/opus-mt-en-good",
    ]
    assert len({folder_of(name) for name in names}) == len(names)
    assert folder_of(names[0]) == "opus-mt-en-good"


def test_a_folder_of_an_earlier_version_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "m2m100_418M").mkdir()
    old = new_folder(tmp_path / "m2m100_418M", ModelConfig(vocab_size=64, d_model=8, heads=2))
    origin = "https://huggingface.co/facebook/m2m100_418M/tree/0123"
    old = dataclasses.replace(old, origin=origin)
    (old.path / "config.json").write_text(old.to_json())
    assert folder_in(tmp_path, "facebook/m2m100_418M") == "m2m100_418M"
    assert folder_in(tmp_path, "myteam/m2m100_418M") == "myteam--m2m100_418M"
    assert folder_in(tmp_path / "nowhere", "facebook/m2m100_418M") == "facebook--m2m100_418M"
