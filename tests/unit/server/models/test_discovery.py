"""Model folders are found and read without their weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from model.model_folder import FolderError
from server.config import Settings
from server.errors import SettingsError
from server.models.discovery import find_served, fingerprint, read_model


def find_models(weights: Path, slots: int = 0):
    return find_served(Settings(weights=weights, slots=slots, data=weights / "none"))


def test_a_folder_of_models_and_a_single_model_folder_are_read(weights):
    for folder in (weights, weights / "tiny"):
        [model], errors = find_models(folder)
        assert (model.name, errors, model.license) == ("tiny", {}, "MIT")
        assert set(model.pairs) == {("en", "de"), ("en", "fr")}
        assert model.bytes == (weights / "tiny" / "model.safetensors").stat().st_size
        assert model.tokenizer.encode("the dog", "de").pieces[0] == ">>de<<"


def test_the_size_of_a_model_is_that_of_its_weights_without_the_shortlist(weights):
    [before], _ = find_models(weights)
    (weights / "tiny" / "shortlist.safetensors").write_bytes(b"no weights")
    [after], _ = find_models(weights)
    assert after.bytes == before.bytes
    assert after.version != before.version


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda folder: (folder / "config.json").write_text("{"), "JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "format"),
        (lambda folder: (folder / "tokenizer.model").unlink(), "tokenizer"),
        (lambda folder: (folder / "tokenizer.model").write_bytes(b"no model"), "tokenizer"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors"),
        (lambda folder: (folder / "alignment.json").write_text('{"layer": 99}'), "alignment.json"),
        (lambda folder: edit(folder, pairs=[]), "pairs"),
        (lambda folder: edit(folder, pairs="en-de"), ""),
        (lambda folder: edit(folder, model={"vocab_size": -1}), "vocab_size"),
        (lambda folder: edit(folder, tags={"de": ">>xx<<"}), ">>xx<<"),
    ],
)
def test_an_unusable_folder_is_reported_with_the_reason(weights, change, word):
    shutil.copytree(weights / "tiny", weights / "broken")
    change(weights / "broken")
    models, errors = find_models(weights)
    assert [model.name for model in models] == ["tiny"]
    assert word in errors["broken"] and "\n" not in errors["broken"]
    shutil.rmtree(weights / "tiny")
    with pytest.raises(SettingsError, match="no usable model"):
        find_models(weights)


def edit(folder: Path, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def test_a_second_folder_with_the_same_model_name_is_an_error(weights):
    shutil.copytree(weights / "tiny", weights / "twin")
    [model], errors = find_models(weights)
    assert model.folder.name == "tiny" and "already" in errors["twin"]


def test_the_fingerprint_depends_on_the_content(weights):
    folder = weights / "tiny"
    first = fingerprint(folder)
    (folder / "README.md").write_text("another card")
    (folder / "roles.json.part").write_text("{")
    assert fingerprint(folder) == first
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    assert fingerprint(folder) != first


def test_a_model_states_its_length_penalty(weights: Path) -> None:
    file = weights / "tiny" / "config.json"
    fields = json.loads(file.read_text())
    assert read_model(file.parent).generation.length_penalty is None
    file.write_text(json.dumps({**fields, "generation": {"length_penalty": 1.4}}))
    assert read_model(file.parent).generation.length_penalty == 1.4
    file.write_text(json.dumps({**fields, "generation": {"length_penalty": "1"}}))
    with pytest.raises(FolderError, match="length_penalty must be a number from 0 to 5"):
        read_model(file.parent)


def test_the_beam_that_a_model_states_fits_into_the_slots(
    tiny_weights: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_weights, tmp_path / "weights")
    [file] = (tmp_path / "weights").rglob("config.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "generation": {"beam_size": 6}}))
    found = [find_models(tmp_path / "weights", slots)[0][0] for slots in (0, 64, 8, 4)]
    assert [(model.beam_size, model.reranked_beam) for model in found] == [
        (6, 12),
        (6, 12),
        (6, 8),
        (4, 4),
    ]


def test_the_fingerprint_covers_a_matrix_in_the_middle_of_a_large_file(tmp_path: Path):
    weights = bytearray(3_000_000)
    (tmp_path / "model.safetensors").write_bytes(weights)
    first = fingerprint(tmp_path)
    weights[1_400_000 : 1_400_000 + 512 * 512] = b"\1" * 512 * 512
    (tmp_path / "model.safetensors").write_bytes(weights)
    assert fingerprint(tmp_path) != first
