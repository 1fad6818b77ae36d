"""Tests of the import from the layout of Hugging Face. Refused models write no files and execute no
code."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoint import load_model
from model.convert.importer import ImportOptions, import_model
from model.convert.source_files import SUPPRESSED
from model.model_folder import FolderError, Generation, ImportRefused, ModelFolder, read_folder
from model.positions import sinusoidal_table
from model.search.options import DecodingOptions
from tests.support.models.marian_models import random_huggingface, random_sources, split_into_shards
from tests.support.models.transformers_pairs import Pair

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a random model in the layout of OPUS-MT."""
    path = tmp_path_factory.mktemp("published") / "opus-mt-en-de"
    random_huggingface(path, tags=(">>deu<<", ">>nds<<", ">>cmn_Hans<<"))
    return path


@pytest.fixture
def copy(published: Path, tmp_path: Path) -> Path:
    """Returns a copy of the published model that the test may change."""
    shutil.copytree(published, tmp_path / "opus-mt-en-de")
    return tmp_path / "opus-mt-en-de"


def imported(path: Path, **options: Any) -> ModelFolder:
    return import_model(path, path.parent / "weights", ImportOptions(**options))


def refused(path: Path, reason: str) -> None:
    """Checks that the import is refused with the reason in one line and writes no folder."""
    with pytest.raises(ImportRefused, match=f"(?s).*({reason})") as refusal:
        imported(path)
    assert "\n" not in str(refusal.value)
    assert not (path.parent / "weights").exists()


def change(file: Path, **fields: Any) -> None:
    file.write_text(
        json.dumps({**json.loads(file.read_text(encoding="utf-8")), **fields}), encoding="utf-8"
    )


def change_tensors(path: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(path / "model.safetensors")
    edit(tensors)
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})


def test_imported_folder_has_languages_tags_and_license(copy: Path) -> None:
    folder = imported(copy)
    assert folder == read_folder(copy.parent / "weights" / "opus-mt-en-de")
    assert folder.pairs == (("en", "de"), ("en", "nds"), ("en", "zh-Hans"))
    assert folder.tags == {"de": ">>deu<<", "nds": ">>nds<<", "zh-Hans": ">>cmn_Hans<<"}
    assert folder.license == "cc-by-4.0"
    assert "cc-by-4.0" in (folder.path / "README.md").read_text(encoding="utf-8")
    pad = json.loads((copy / "config.json").read_text())["pad_token_id"]
    assert folder.generation.forbidden == (pad,)


def test_a_pickled_checkpoint_gives_the_same_folder(copy: Path) -> None:
    first = imported(copy)
    tensors = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    for legacy in (False, True):
        torch.save(tensors, copy / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
        second = imported(copy, name=f"pickled-{legacy}")
        assert (first.path / "model.safetensors").read_bytes() == (
            second.path / "model.safetensors"
        ).read_bytes()


@pytest.mark.parametrize("pickled", [False, True])
def test_a_model_without_its_output_layer_and_in_float64_gives_the_same_folder(
    pickled: bool, copy: Path
) -> None:
    for name in ("final_logits_bias", "lm_head.weight"):
        change_tensors(copy, lambda tensors, n=name: tensors.pop(n, None))  # type: ignore[misc]
    first = imported(copy)
    tensors = load_file(copy / "model.safetensors")
    tensors = {name.removeprefix("model."): tensor.double() for name, tensor in tensors.items()}
    if pickled:
        (copy / "model.safetensors").unlink()
        torch.save(tensors, copy / "pytorch_model.bin")
    else:
        save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    second = imported(copy, name="other")
    assert (first.path / "model.safetensors").read_bytes() == (
        second.path / "model.safetensors"
    ).read_bytes()
    assert transformers.MarianMTModel.from_pretrained(copy).model.shared.weight.isfinite().all()


def test_a_checkpoint_of_a_training_says_how_the_model_is_saved_alone(copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save({"state_dict": tensors, "epoch": 3}, copy / "pytorch_model.bin")
    refused(copy, "save the model by save_pretrained")


def test_an_existing_folder_is_replaced_only_on_request(copy: Path) -> None:
    first = imported(copy, license="one")
    with pytest.raises(FolderError, match="exists already"):
        imported(copy, license="two")
    assert read_folder(first.path).license == "one"
    assert imported(copy, license="two", replace=True).license == "two"
    assert sorted(path.name for path in first.path.parent.iterdir()) == ["opus-mt-en-de"]


@pytest.mark.parametrize("name", ["../elsewhere", ".hidden", "a/b", "", "a b"])
def test_invalid_folder_names_are_refused(name: str, copy: Path) -> None:
    if name == "":
        copy = copy.rename(copy.parent / "strange name")
    with pytest.raises(FolderError, match="--name"):
        imported(copy, name=name or None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"model_type": "t5"},
            "model_type 't5' in Hugging Face's layout, of which marian.* use facebook/m2m100_418M "
            "or ",
        ),
        ({"model_type": "mbart"}, "it lacks sentencepiece.bpe.model or tokenizer.json"),
        ({"model_type": None}, "without a model_type"),
        ({"activation_function": "gelu_new"}, "activation_function"),
        ({"decoder_attention_heads": 8}, "attention_heads"),
        ({"normalize_before": True}, "normalize_before"),
        ({"eos_token_id": [0, 1]}, "invalid"),
        ({"eos_token_id": 1}, "</s> is 0"),
        ({"d_model": "32"}, "d_model"),
        ({"d_model": 10**10}, "d_model"),
        ({"d_model": 64}, "shape"),
        ({"encoder_layers": 3}, "missing"),
        ({"encoder_layers": 1}, "not a tensor of this architecture"),
        ({"vocab_size": -1}, "vocab_size"),
        ({"vocab_size": 20}, "vocabulary|outside"),
        ({"pad_token_id": None}, "invalid"),
        ({"max_position_embeddings": 10**9}, "max_length"),
        ({"share_encoder_decoder_embeddings": False}, "missing"),
    ],
)
def test_unsupported_configs_are_refused(fields: dict[str, Any], reason: str, copy: Path) -> None:
    change(copy / "config.json", **fields)
    refused(copy, reason)


@pytest.mark.parametrize(
    "file", ["config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json"]
)
def test_missing_or_truncated_files_are_refused(file: str, copy: Path) -> None:
    whole = (copy / file).read_bytes()
    for length in (0, len(whole) // 2, len(whole) - 5):
        (copy / file).write_bytes(whole[:length])
        refused(copy, "cannot be imported")
    (copy / file).unlink()
    refused(copy, f"it lacks {re.escape(file)}|it has none of the files by which models are known")


def test_invalid_tensors_are_refused(copy: Path) -> None:
    name = "model.encoder.layers.0.fc1.weight"
    spoiled: list[tuple[Callable[[dict[str, torch.Tensor]], Any], str]] = [
        (lambda tensors: tensors.update(other=torch.zeros(1)), "other is not a tensor"),
        (lambda tensors: tensors.pop(name), f"{name} is missing"),
        (lambda tensors: tensors.update({name: torch.zeros(3, 3)}), "shape"),
        (lambda tensors: tensors.update({name: tensors[name].to(torch.int8)}), "I8"),
        (lambda tensors: tensors.update({name: tensors[name].double() * 1e300}), "finite"),
        (lambda tensors: tensors.update({name: tensors[name] / 0}), "finite"),
        (
            lambda tensors: tensors.update({"lm_head.weight": tensors["model.shared.weight"] + 1}),
            "differs",
        ),
        (lambda tensors: tensors.clear(), "missing"),
    ]
    whole = (copy / "model.safetensors").read_bytes()
    for edit, reason in spoiled:
        (copy / "model.safetensors").write_bytes(whole)
        change_tensors(copy, edit)
        refused(copy, reason)


def test_sharded_weights_give_the_same_folder(copy: Path) -> None:
    first = imported(copy)
    split_into_shards(copy)
    second = imported(copy, name="sharded")
    assert (first.path / "model.safetensors").read_bytes() == (
        second.path / "model.safetensors"
    ).read_bytes()
    shards = sorted(copy.glob("model-*.safetensors"))
    shutil.copyfile(shards[0], shards[1])
    with pytest.raises(ImportRefused, match="in two files"):
        imported(copy, name="other")
    shards[1].unlink()
    with pytest.raises(ImportRefused, match="1 files, whose names state 2: give all of them"):
        imported(copy, name="other")


def test_rounded_positions_of_a_float16_file_are_kept(copy: Path) -> None:
    table = torch.from_numpy(sinusoidal_table(96, 32, half=True))
    for stored, positions in ((table, "sinusoidal_half"), (table.half(), "learned")):
        names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
        change_tensors(
            copy, lambda raw, s=stored, n=names: raw.update({name: s.clone() for name in n})
        )  # type: ignore[misc]
        folder = imported(copy, replace=True)
        assert folder.model.positions == positions
        if positions == "learned":
            assert torch.equal(load_model(folder).positions.weight, table.half().float())


def test_weights_that_overflow_are_refused(copy: Path) -> None:
    """Every number is finite, but their products are not."""
    change_tensors(copy, lambda raw: raw["model.encoder.layers.0.fc1.weight"].fill_(3e38))
    with pytest.raises(ImportRefused, match="trial sentence"):
        imported(copy)
    assert not any((copy.parent / "weights").iterdir())


class Malicious:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_malicious_pickle_is_not_executed(zipped: bool, copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    trap = copy.parent / "executed"
    torch.save(
        {"a": Malicious(trap)}, copy / "pytorch_model.bin", _use_new_zipfile_serialization=zipped
    )
    refused(copy, "objects other than tensors")
    (copy / "pytorch_model.bin").write_bytes(pickle.dumps(Malicious(trap)))
    refused(copy, "objects other than tensors|checkpoint")
    assert not trap.exists()


def test_a_pickle_of_the_old_form_that_claims_10_gigabytes_is_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    file = copy / "pytorch_model.bin"
    torch.save(
        {"model.shared.weight": torch.zeros(54_321)}, file, _use_new_zipfile_serialization=False
    )
    original, claimed = pickle.dumps(54_321, 2)[2:-1], pickle.dumps(2_500_000_000, 2)[2:-1]
    file.write_bytes(file.read_bytes().replace(original, claimed))
    refused(copy, "checkpoint|tensors")


def test_invalid_pickled_checkpoints_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    file = copy / "pytorch_model.bin"
    for content in ([1, 2], {"a": 1}, {1: torch.zeros(1)}, torch.zeros(3)):
        torch.save(content, file)
        refused(copy, "dictionary of tensors")
    torch.save({"a": torch.zeros(1000)}, file)
    whole = file.read_bytes()
    for length in (0, 1, 100, len(whole) // 2):
        file.write_bytes(whole[:length])
        refused(copy, "cannot be imported")


def test_invalid_vocabularies_are_refused(copy: Path) -> None:
    vocabulary = json.loads((copy / "vocab.json").read_text(encoding="utf-8"))
    spoiled: list[tuple[Any, str]] = [
        ({**vocabulary, "extra": 10**6}, "below"),
        ({**vocabulary, "extra": "7"}, "integer"),
        ({**vocabulary, "extra": -1}, "below"),
        ({**vocabulary, "extra": 3}, "two pieces"),
        ({piece: i for piece, i in vocabulary.items() if piece != "<unk>"}, "<unk>"),
        ([1, 2], "object"),
    ]
    for changed, reason in spoiled:
        (copy / "vocab.json").write_text(json.dumps(changed), encoding="utf-8")
        refused(copy, reason)
    (copy / "vocab.json").write_text("[" * 100_000, encoding="utf-8")
    refused(copy, "well-formed")


def test_generation_config_stands_alone_as_in_transformers(copy: Path) -> None:
    change(
        copy / "generation_config.json", num_beams=6, forced_eos_token_id=0, renormalize_logits=True
    )
    folder = imported(copy)
    # as transformers without a penalty
    stated = {"length_penalty": 1.0, "normalization": "average"}
    assert folder.generation == Generation(beam_size=6, forced_end=True, **stated)
    pad = json.loads((copy / "config.json").read_text())["pad_token_id"]
    assert load_model(folder).output_bias[pad] == SUPPRESSED
    change(
        copy / "config.json",
        num_beams=5,
        length_penalty=0.7,
        no_repeat_ngram_size=3,
        early_stopping=True,
    )
    assert imported(copy, replace=True).generation == folder.generation
    (copy / "generation_config.json").unlink()
    expected = {
        "beam_size": 5,
        "length_penalty": 0.7,
        "no_repeat_ngram_size": 3,
        "early_stopping": True,
    }
    assert imported(copy, replace=True).generation == Generation(
        **expected, normalization="average"
    )  # type: ignore[arg-type]


def test_settings_of_generation_give_the_targets_of_transformers(copy: Path) -> None:
    """As transformers decodes by the file alone, and we by the folder alone."""
    plain = transformers.MarianMTModel.from_pretrained(copy)
    vocabulary = json.loads((copy / "vocab.json").read_text(encoding="utf-8"))
    pad, size = plain.config.pad_token_id, len(vocabulary)
    sources = random_sources(30, size, 0, seed=5, avoid=(pad,))
    ids = {"decoder_start_token_id": pad, "eos_token_id": 0, "pad_token_id": pad}
    base = {"num_beams": 3, "bad_words_ids": [[pad]], **ids}
    cases: list[dict[str, Any]] = [
        {},
        {"length_penalty": 2.0},
        {"length_penalty": 0.0, "early_stopping": True},
        {"no_repeat_ngram_size": 2},
        {"suppress_tokens": [17, 40, 41]},
        {"suppress_tokens": [17, 40, 41], "renormalize_logits": True, "num_beams": 1},
        {"forced_bos_token_id": 23},
        {"decoder_start_token_id": 9, "length_penalty": 1.5},
    ]
    written = set()
    for case in cases:
        change(copy / "generation_config.json", **(base | case))
        theirs = transformers.MarianMTModel.from_pretrained(copy).eval()
        folder = imported(copy, replace=True)
        pair = Pair(
            path=copy,
            theirs=theirs,
            folder=folder,
            ours=load_model(folder),
            sources=sources,
            limit=12,
        )
        first = folder.load_tokenizer().first_token("de")
        pair = dataclasses.replace(pair, first_token=first, start_tokens=1 if first is None else 2)
        source, mask = pair.padded()
        expected = pair.targets(
            theirs.generate(
                source, attention_mask=mask.long(), max_new_tokens=11 + pair.start_tokens
            )
        )
        asked = DecodingOptions(beam_size=0)
        stated = asked.with_defaults(folder.generation.beam_size, folder.generation)
        names = ("beam_size", "length_penalty", "early_stopping", "no_repeat_ngram_size")
        options = {name: getattr(stated, name) for name in names}
        assert [list(best.tokens) for best, *_ in pair.translate(**options)] == expected, case
        written.add(str(expected))
        (copy / "generation_config.json").write_text(json.dumps(base))
    assert len(written) == len(cases)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"repetition_penalty": 1.3}, "repetition_penalty 1.3"),
        ({"min_length": 5, "do_sample": True}, "min_length 5, do_sample True"),
        ({"early_stopping": "never"}, "early_stopping 'never'"),
        ({"eos_token_id": [0, 7]}, "eos_token_id"),
        ({"bad_words_ids": [[3, 4], [5]]}, "bad_words_ids with 1 sequences of several tokens"),
        (
            {
                "repetition_penalty": 1.0,
                "min_length": 0,
                "do_sample": False,
                "temperature": 0.7,
                "max_length": 96,
            },
            "",
        ),
    ],
)
def test_settings_that_are_not_applied_are_named(
    fields: dict[str, Any], named: str, copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(copy / "generation_config.json", **fields)
    imported(copy)
    assert (named in caplog.text) if named else "of its generation" not in caplog.text


def test_added_tokens_belong_to_the_vocabulary(copy: Path) -> None:
    vocabulary = json.loads((copy / "vocab.json").read_text(encoding="utf-8"))
    moved = {piece: vocabulary.pop(piece) for piece in (">>nds<<", ">>deu<<")}
    (copy / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (copy / "added_tokens.json").write_text(json.dumps(moved))
    folder = imported(copy)
    assert folder.pairs == (("en", "de"), ("en", "nds"), ("en", "zh-Hans"))
    assert folder.load_tokenizer().encode("a", "nds").ids[0] == moved[">>nds<<"]


def test_unsupported_generation_settings_are_refused(copy: Path) -> None:
    for fields, reason in (
        ({"num_beams": 1000}, "beam_size must be an integer from 0 to 32"),
        ({"forced_eos_token_id": 7}, "forced_eos_token_id"),
        ({"bad_words_ids": [[i] for i in range(300)]}, "forbidden must be a list of at most 256"),
        ({"length_penalty": -1.0}, "length_penalty"),
        ({"forced_bos_token_id": 10**6}, "forced_bos_token_id"),
    ):
        whole = (copy / "generation_config.json").read_text()
        change(copy / "generation_config.json", **fields)
        refused(copy, reason)
        (copy / "generation_config.json").write_text(whole)
    for words, reason in (([[10**6]], "outside"), ("no", "list"), ([["a"]], "list")):
        change(copy / "generation_config.json", bad_words_ids=words)
        refused(copy, reason)
