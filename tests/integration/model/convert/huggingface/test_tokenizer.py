"""Tests that the imported tokenizer gives the ids and texts of MarianTokenizer of transformers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from model.convert.importer import ImportOptions, import_model
from model.model_folder import ModelFolder
from tests.support.models.marian_models import made_up_text, random_huggingface
from tests.unit.model.convert.test_export import load_marian_tokenizer

pytest.importorskip("transformers")

VARIANTS: dict[str, dict[str, Any]] = {
    "shared": {},
    "untied, odd ids": {"untied": True, "special": {"</s>": 3, "<unk>": 11, "<pad>": 30}},
}
TAGS = (">>deu<<", ">>pob<<")


@pytest.fixture(scope="module", params=VARIANTS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, ModelFolder]:
    path: Path = tmp_path_factory.mktemp("tokenizer")
    random_huggingface(path / "opus-mt-en-mul", seed=12, tags=TAGS, **VARIANTS[request.param])
    folder = import_model(path / "opus-mt-en-mul", path / "weights", ImportOptions())
    return load_marian_tokenizer(path / "opus-mt-en-mul"), folder


def texts() -> list[str]:
    """Returns texts from the training data of the tokenizer, texts in other scripts, and texts with
    unusual spaces."""
    chance = random.Random(1)
    strange = [
        "",
        " ",
        "a",
        "  two  spaces ",
        "tab\tand\u00a0nbsp",
        "日本 ок ﬁ ½ é e\u0301",
        "x" * 90,
        "🙂 unknown 🙂",
    ]
    mixed = [
        "".join(chance.choice("ab cдε東.,!?9 ") for _ in range(chance.randint(1, 40)))
        for _ in range(200)
    ]
    return [*made_up_text(seed=13, lines=300), *made_up_text(seed=99, lines=200), *strange, *mixed]


def test_source_ids_are_equal(both: tuple[Any, ModelFolder]) -> None:
    theirs, folder = both
    ours = folder.load_tokenizer()
    for text in texts():
        assert list(ours.encode(text).ids) == theirs(text)["input_ids"], text


def test_target_ids_and_texts_are_equal(both: tuple[Any, ModelFolder]) -> None:
    theirs, folder = both
    ours = folder.load_tokenizer()
    end = folder.model.eos_id
    for text in texts():
        ids = list(ours.encode_target(text))
        assert [*ids, end][: len(ids)] == theirs(text_target=text)["input_ids"][: len(ids)], text
        # With two vocabularies, transformers removes the special ids of the source vocabulary from
        # the target.
        if not {folder.model.unk_id, *theirs.all_special_ids} & set(ids):
            assert ours.decode(ids) == theirs.decode(
                ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
