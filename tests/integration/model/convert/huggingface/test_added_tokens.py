"""Imported tokenizers read and write what those of transformers do: added tokens, tokenizer.json,
files of two models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from model.convert.importer import ImportOptions, import_model
from model.model_folder import ImportRefused
from tests.support.models.marian_models import made_up_text, random_huggingface, train_sentencepiece
from tests.support.models.multilingual_models import random_multilingual

pytestmark = pytest.mark.filterwarnings("ignore:Recommended")
transformers = pytest.importorskip("transformers")
TEXTS = [
    *(
        "Hello ACME world",
        "xACMEy",
        "ACME",
        " ACME  foo",
        "a <ph>b c",
        "<ph><ph>",
        "one <r> two",
        "ACMEs <ph1>",
        "",
    ),
    *("two  spaces", "ﬁne Ⅷ ½ ﷺ", "a\tb\nc", "x☃☃☃y ☃", "é é", "a\u00a0b <ph> ☃", "ACM E", "<sp>x"),
    *(
        f"{text} ACME" if number % 3 else f"<ph>{text}"
        for number, text in enumerate(made_up_text(seed=41, lines=60))
    ),
]
FAMILIES = {"marian": ("en", "de"), "nllb": ("en", "de"), "m2m100": ("en", "de")}


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """Returns a function that gives the folder of a random model of a family with added tokens, as
    transformers saves it, and its tokenizer."""
    return cache(lambda family: save_added(tmp_path_factory.mktemp(family), family))


def save_added(path: Path, family: str) -> tuple[Path, Any]:
    make = random_huggingface if family == "marian" else random_multilingual
    arguments = () if family == "marian" else (family,)
    model = make(path / "first", *arguments, seed=1)
    kind = {"marian": transformers.MarianTokenizer, "nllb": transformers.NllbTokenizer}.get(family)
    tokenizer = (kind or transformers.M2M100Tokenizer).from_pretrained(path / "first")
    tokenizer.add_tokens(["ACME", "<ph>", transformers.AddedToken("<r>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens(["<sp>"], special_tokens=True)
    model.resize_token_embeddings(max(len(tokenizer), model.config.vocab_size), mean_resizing=False)
    with torch.no_grad():
        model.get_input_embeddings().weight[-4:].normal_(std=0.2)
    (path / "model").mkdir()
    for name in ("README.md", "special_tokens_map.json"):
        if (path / "first" / name).is_file():
            shutil.copy(path / "first" / name, path / "model" / name)
    model.save_pretrained(path / "model")
    tokenizer.save_pretrained(path / "model")
    return path / "model", tokenizer


@pytest.mark.parametrize("family", FAMILIES)
def test_added_tokens_are_matched_in_a_text_and_written_as_in_transformers(
    family: str, added: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    path, theirs = added(family)
    if family == "nllb":
        assert not (path / "sentencepiece.bpe.model").exists(), (
            "transformers 5 writes tokenizer.json only"
        )
    folder = import_model(path, tmp_path / "weights", ImportOptions())
    ours, (source, target) = folder.load_tokenizer(), FAMILIES[family]
    for text in TEXTS:
        [*ids] = theirs(text, add_special_tokens=False)["input_ids"]
        encoding = ours.encode(text, target, source)
        start = len(encoding.ids) - len(ids) - 1
        assert list(encoding.ids[start:-1]) == ids, text
        assert encoding.ids == ours.encode_ids(text, target, source)
        for piece, (first, last) in zip(
            encoding.pieces[start:-1], encoding.offsets[start:-1], strict=True
        ):
            assert piece not in ("ACME", "<ph>") or text[first:last] == piece
        if family != "m2m100":  # whose decode joins pieces without their spaces
            written = ids if family == "nllb" else ours.encode_target(text)
            decoded = theirs.decode(
                written, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            assert ours.decode(written).strip() == decoded.strip(), text
            assert ours.decode_pieces(written).text == ours.decode(written)


def test_the_same_tokens_are_read_from_each_file(
    added: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    model = shutil.copytree(added("marian")[0], tmp_path / "model")
    weights, found = tmp_path / "weights", []
    config = json.loads((model / "tokenizer_config.json").read_text())
    decoder = config["added_tokens_decoder"]
    ids = {entry["content"]: int(i) for i, entry in decoder.items()}
    listed = [{**entry, "id": int(i)} for i, entry in decoder.items()]
    for name, content in (
        ("added_tokens.json", ids),
        ("tokenizer_config.json", config),
        ("tokenizer.json", {"added_tokens": listed}),
    ):
        for other in ("added_tokens.json", "tokenizer.json"):
            (model / other).unlink(missing_ok=True)
        del config["added_tokens_decoder"]
        (model / "tokenizer_config.json").write_text(json.dumps(config))
        config["added_tokens_decoder"] = decoder
        (model / name).write_text(json.dumps(content))
        folder = import_model(
            model, weights, ImportOptions(name=f"by-{name}", sources=["en"], targets=["de"])
        )
        found.append(
            [
                folder.load_tokenizer().encode_ids(text)
                for text in ("x ACME y", "<ph>", "a ACME<ph>b")
            ]
        )
    assert found[0] == found[1] == found[2] and ids["ACME"] in found[0][0]


def test_texts_of_callers_do_not_contain_the_special_tokens(
    added: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    """A text must neither end a source nor choose a language."""
    for family, texts in (("marian", ["a</s>b"]), ("nllb", ["a</s>b", "a deu_Latn b"])):
        folder = import_model(added(family)[0], tmp_path / "weights", ImportOptions(name=family))
        tokenizer = folder.load_tokenizer()
        special = {folder.model.eos_id, tokenizer.first_token("de")}
        for text in texts:
            assert not special.intersection(tokenizer.encode_target(text))


def test_a_vocabulary_of_another_model_is_refused(tmp_path: Path) -> None:
    random_huggingface(tmp_path / "model", seed=1)
    train_sentencepiece(tmp_path / "model" / "target.spm", seed=99)
    with pytest.raises(
        ImportRefused, match=r"vocabulary lacks [0-9]+% of the pieces of the target's"
    ):
        import_model(tmp_path / "model", tmp_path / "weights")


def test_two_tokenizer_files_of_a_model_differ_in_few_texts(tmp_path: Path) -> None:
    """Each import equals the program that reads its file; the texts where the programs differ have
    spaces at their end or characters outside the vocabulary next to special ones."""
    random_multilingual(tmp_path / "spm", "nllb", seed=1)
    shutil.copytree(tmp_path / "spm", tmp_path / "json")
    transformers.NllbTokenizer.from_pretrained(tmp_path / "spm").save_pretrained(tmp_path / "json")
    (tmp_path / "json" / "sentencepiece.bpe.model").unlink()
    tokenizers = [
        import_model(
            tmp_path / name, tmp_path / "weights", ImportOptions(name=name)
        ).load_tokenizer()
        for name in ("spm", "json")
    ]
    texts = [
        *made_up_text(seed=43, lines=100),
        *(f"{text} " for text in made_up_text(seed=44, lines=5)),
    ]
    differing = [
        text
        for text in texts
        if len({each.encode_ids(text, "de", "en") for each in tokenizers}) > 1
    ]
    assert len(differing) <= 7, differing


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "not one of SentencePiece"),
        ({"normalizer": {"type": "Lowercase"}}, "normalizer Lowercase"),
        ({"model": {"type": "WordPiece", "vocab": {}}}, "not one of SentencePiece"),
        (
            {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}},
            "not a tokenizer of the library",
        ),
        ({"model": [1]}, "not a tokenizer of the library"),
        (
            {"model": {"type": "Unigram", "vocab": [["a", 0.0], ["a", 0.0]]}},
            "not a tokenizer of the library",
        ),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": 3}},
            "not a tokenizer of the library",
        ),
        ({"added_tokens": [{"content": "", "id": 1}]}, "added tokens"),
    ],
)
def test_a_tokenizer_json_that_cannot_be_read_is_refused(
    change: dict[str, Any],
    reason: str,
    added: Callable[[str], tuple[Path, Any]],
    tmp_path: Path,
) -> None:
    file = shutil.copytree(added("nllb")[0], tmp_path / "model") / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ImportRefused, match=reason):
        import_model(tmp_path / "model", tmp_path / "weights")
