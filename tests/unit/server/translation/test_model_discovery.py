"""Model folders as the API process reads them: everything but the weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from server.__main__ import main
from server.errors import SettingsError
from server.translation.model_discovery import find_models, fingerprint


@pytest.fixture
def weights(tiny_weights: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    shutil.copytree(tiny_weights, tmp_path / "weights")
    return tmp_path / "weights"


def test_a_folder_of_models_or_one_model(weights):
    for place in (weights, weights / "tiny"):
        [model], errors = find_models(place)
        assert (model.name, errors, model.license) == ("tiny", {}, "MIT")
        assert set(model.pairs) == {("en", "de"), ("en", "fr")}
        assert model.bytes == (weights / "tiny" / "model.safetensors").stat().st_size
        assert model.tokenizer.encode("the dog", "de").pieces[0] == ">>de<<"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda folder: (folder / "config.json").write_text("{"), "JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "format"),
        (lambda folder: (folder / "tokenizer.model").unlink(), "tokenizer"),
        (lambda folder: (folder / "tokenizer.model").write_bytes(b"no model"), "tokenizer"),
        (lambda folder: edit(folder, pairs=[]), "pairs"),
        (lambda folder: edit(folder, pairs="en-de"), ""),
        (lambda folder: edit(folder, model={"vocab_size": -1}), "vocab_size"),
        (lambda folder: edit(folder, tags={"de": ">>xx<<"}), ">>xx<<"),
    ],
)
def test_a_spoiled_folder_is_named_with_its_reason(weights, change, word):
    shutil.copytree(weights / "tiny", weights / "spoiled")
    change(weights / "spoiled")
    models, errors = find_models(weights)
    assert [model.name for model in models] == ["tiny"]
    assert word in errors["spoiled"] and "\n" not in errors["spoiled"]
    shutil.rmtree(weights / "tiny")
    with pytest.raises(SettingsError, match="no usable model"):
        find_models(weights)


def edit(folder: Path, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def test_two_folders_with_one_name(weights):
    shutil.copytree(weights / "tiny", weights / "twin")
    [model], errors = find_models(weights)
    assert model.folder.name == "tiny" and "already" in errors["twin"]


def test_the_fingerprint_follows_the_content(weights):
    folder = weights / "tiny"
    first = fingerprint(folder)
    (folder / "README.md").write_text("another card")
    assert fingerprint(folder) == first
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    assert fingerprint(folder) != first


def test_models_are_listed(weights, capsys):
    assert main(["models", "--weights", str(weights)]) == 0
    assert "tiny" in capsys.readouterr().out
    (weights / "bad").mkdir()
    (weights / "bad" / "config.json").write_text("{")
    assert main(["models", "--weights", str(weights), "--json"]) == 1
    listed = json.loads(capsys.readouterr().out)
    assert listed["models"][0]["pairs"] == ["en-de", "en-fr"] and "bad" in listed["errors"]
    assert main(["models", "--weights", "/nowhere"]) == 2
    assert "ATTENTIVE_WEIGHTS" in capsys.readouterr().err


def test_a_wrong_command_line_is_refused(weights, capsys):
    for wrong in (["fly"], ["translate"], ["serve", "--no-such-flag"]):
        with pytest.raises(SystemExit) as caught:
            main(wrong)
        assert caught.value.code == 2
    assert main(["translate", "--from", "en", "--to", "tlh", "--weights", str(weights)]) == 1
    assert "not supported" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
