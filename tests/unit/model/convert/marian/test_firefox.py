"""Tests of the import of Firefox's models, on random ones. tests/conformance/test_bergamot.py
compares with Firefox's own engine."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from model.checkpoint import load_model
from model.convert.importer import import_model
from model.convert.marian.archives import read_archive
from model.convert.source_files import ImportRefused
from tests.support.models.firefox_models import binary_file, random_firefox, write_firefox

MODEL = "model.ende.intgemm.alphas.bin"


@pytest.mark.parametrize("vocabularies", [1, 2])
def test_float32_weights_equal_the_original(vocabularies: int, tmp_path: Path) -> None:
    original = random_firefox(tmp_path / "ende", precision="float32", vocabularies=vocabularies)
    folder = import_model(tmp_path / "ende", tmp_path / "weights")
    imported = load_model(folder)
    for name, tensor in original.state_dict().items():
        if name != "positions.weight":
            assert torch.equal(imported.state_dict()[name], tensor), name
    assert (folder.name, list(folder.pairs), folder.license) == ("ende", [("en", "de")], "unknown")
    assert folder.model == original.config
    assert folder.generation.forbidden == (1,)
    assert folder.tokenizer.target == ("source.spm" if vocabularies == 1 else "target.spm")


def test_int8_weights_are_within_half_a_step(tmp_path: Path) -> None:
    original = random_firefox(tmp_path / "ende", precision="int8")
    imported = load_model(import_model(tmp_path / "ende", tmp_path / "weights"))
    for name, tensor in original.state_dict().items():
        if name != "positions.weight":
            step = tensor.abs().max() / 127 if tensor.dim() == 2 else 0
            assert (imported.state_dict()[name] - tensor).abs().max() <= step / 2 + 1e-6, name


def test_positions_are_those_of_marian(tmp_path: Path) -> None:
    random_firefox(tmp_path / "ende")
    table = load_model(import_model(tmp_path / "ende", tmp_path / "weights")).positions.weight
    assert table.shape == (512, 32)
    expected = [math.sin(3), math.sin(3e-4), math.cos(3), math.cos(3e-4)]
    assert table[3, [0, 15, 16, 31]].tolist() == pytest.approx(expected)


def test_metadata_name_languages_and_licence(tmp_path: Path) -> None:
    random_firefox(tmp_path / "model")
    published = {"sourceLanguage": "zh_hant", "targetLanguage": "en", "architecture": "tiny"}
    (tmp_path / "model" / "metadata.json").write_text(json.dumps(published))
    folder = import_model(tmp_path / "model", tmp_path / "weights")
    assert (list(folder.pairs), folder.license) == ([("zh-Hant", "en")], "MPL-2.0")


@pytest.mark.parametrize(
    "name", ["model.ende.bin", "model.ende.float.bin", "model.bin", "best-chrf.bin"]
)
def test_float32_files_have_any_name(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The heads of this model are too narrow for the CPU backend."""
    original = random_firefox(tmp_path / "en-de", precision="float32")
    (tmp_path / "en-de" / MODEL).rename(tmp_path / "en-de" / name)
    (tmp_path / "en-de" / "metadata.json").write_text(
        '{"sourceLanguage": "en", "targetLanguage": "de"}'
    )
    folder = import_model(tmp_path / "en-de", tmp_path / "weights")
    assert torch.equal(load_model(folder).embedding.weight, original.embedding.weight)
    assert "needs PyTorch or a GPU to run. The CPU backend has heads of width 16" in caplog.text
    assert "not 8." in caplog.text


def test_of_two_models_none_is_chosen(tmp_path: Path) -> None:
    random_firefox(tmp_path / "ende")
    (tmp_path / "ende" / "model.fien.intgemm.alphas.bin").touch()
    refused(tmp_path, "2 models")


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"dec-depth": 3}, "decoder_l3_rnn_W is missing"), ({"dim-emb": 64}, "shape")],
)
def test_unsupported_options_are_refused_with_the_reason(
    options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    transformer = random_firefox(tmp_path / "ende")
    write_firefox(tmp_path / "ende" / MODEL, transformer, "int8", **options)
    refused(tmp_path, reason)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    random_firefox(tmp_path / "ende")
    file = tmp_path / "ende" / MODEL
    whole = file.read_bytes()
    for length in (0, 15, 16, 500, len(whole) // 2, len(whole) - 300):
        file.write_bytes(whole[:length])
        refused(tmp_path, "truncated")
    for at in (0, 8, 16, 32, 40):  # version, count, and a header's lengths
        for value in (2**64 - 1, 2**40, 0):
            file.write_bytes(whole[:at] + struct.pack("<Q", value) + whole[at + 8 :])
            refused(tmp_path, "binary format|shape|missing|type|not a tensor|YAML|lacks|truncated")


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("int8", bytes(7), "truncated"),
        ("int8", bytes(32 * 32 + 4), "multiplier 0.0"),
        ("bytes", bytes(32 * 32), "type 0x101"),
    ],
)
def test_invalid_tensors_are_refused(kind: str, data: bytes, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(binary_file([("encoder_l1_self_Wq", kind, (32, 32), data)]))
    with pytest.raises(ImportRefused, match=reason):
        read_archive(file)


@pytest.mark.parametrize(
    ("vocabularies", "missing", "reason"),
    [
        (1, "vocab", "0 vocabularies"),
        (2, "srcvocab", "of the other side"),
        (2, "trgvocab", "of the other side"),
    ],
)
def test_a_missing_vocabulary_is_named(
    vocabularies: int, missing: str, reason: str, tmp_path: Path
) -> None:
    random_firefox(tmp_path / "ende", vocabularies=vocabularies)
    (tmp_path / "ende" / f"{missing}.ende.spm").unlink()
    refused(tmp_path, reason)


def refused(tmp_path: Path, reason: str) -> None:
    with pytest.raises(ImportRefused, match=reason) as refusal:
        import_model(tmp_path / "ende", tmp_path / "weights")
    assert "\n" not in str(refusal.value)
    assert not list((tmp_path / "weights").glob("*")) if (tmp_path / "weights").exists() else True
