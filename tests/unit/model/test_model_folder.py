"""Tests of model folders: fields of config.json, file names and the tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model.config import ModelConfig
from model.model_folder import (
    AllPairs,
    FolderError,
    ModelFolder,
    TokenizerFiles,
    pairs_from_json,
    pairs_to_json,
    read_folder,
)
from tests.support.models.folders import new_folder


def folder(path: Path, **changes: Any) -> ModelFolder:
    fields = {"pairs": (("en", "de"), ("en", "fr")), "tags": {"de": ">>de<<", "fr": ">>fr<<"}}
    return new_folder(path, changes.pop("model", ModelConfig(vocab_size=300)), **{**fields, **changes})


def write(path: Path, **changes: Any) -> None:
    """Writes config.json with changed fields."""
    path.mkdir(parents=True, exist_ok=True)
    fields = json.loads(folder(path).to_json())
    (path / "config.json").write_text(json.dumps({**fields, **changes}), encoding="utf-8")


def test_round_trip(tmp_path: Path) -> None:
    files = TokenizerFiles(source="source.spm", target="target.spm", vocabulary="vocab.json")
    shape = ModelConfig(vocab_size=300, norm="pre")
    original = folder(tmp_path, tokenizer=files, model=shape, segment_length=110)
    (tmp_path / "config.json").write_text(original.to_json(), encoding="utf-8")
    assert read_folder(tmp_path) == original
    assert original.languages == ("de", "en", "fr")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 2}, "format 1"),
        ({"format": None}, "format 1"),
        ({"name": 7}, "name"),
        ({"license": ["MIT"]}, "license"),
        ({"pairs": [["en"]]}, "invalid"),
        ({"pairs": 3}, "invalid"),
        ({"pairs": None}, "invalid"),
        ({"tags": ["de"]}, "invalid"),
        ({"model": {}}, "vocab_size"),
        ({"segment_length": "110"}, "segment_length must be an integer from 0 to 512"),
        ({"segment_length": None}, "segment_length"),
        ({"segment_length": -1}, "segment_length"),
        ({"segment_length": 513}, "segment_length"),
        ({"model": None}, "object"),
        ({"model": {"vocab_size": 300, "heads": 7}}, "heads"),
        ({"model": {"vocab_size": 300, "colour": 1}}, "colour"),
        ({"tokenizer": {"source": "../tokenizer.model"}}, "plain file name"),
        ({"tokenizer": {"vocabulary": "/etc/passwd"}}, "plain file name"),
        ({"tokenizer": {"target": ".."}}, "plain file name"),
        ({"tokenizer": {"target": ""}}, "plain file name"),
        ({"tokenizer": {"source": 3}}, "plain file name"),
        ({"tokenizer": {"colour": "red"}}, "invalid"),
    ],
)
def test_invalid_fields_are_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    write(tmp_path, **changes)
    with pytest.raises(FolderError, match=reason) as error:
        read_folder(tmp_path)
    assert "\n" not in str(error.value)


def test_invalid_config_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="cannot be read"):
        read_folder(tmp_path)
    for content, reason in (("{", "JSON"), ("[]", "format"), ("[" * 100_000, "JSON"), (" " * 1_000_001, "larger")):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(FolderError, match=reason):
            read_folder(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FolderError, match="JSON"):
        read_folder(tmp_path)


def test_all_pairs_are_those_of_two_different_languages() -> None:
    pairs = AllPairs(("de", "en", "fr"), ("de", "en"))
    assert list(pairs) == [("de", "en"), ("en", "de"), ("fr", "de"), ("fr", "en")]
    assert len(pairs) == 4
    assert all(pair in pairs for pair in pairs)
    for pair in (("de", "de"), ("de", "fr"), "de", ("de",)):
        assert pair not in pairs


def test_pairs_are_stored_without_a_list_of_them() -> None:
    codes = tuple(f"x{i}" for i in range(200))
    stored = pairs_to_json(AllPairs(codes, codes))
    assert pairs_from_json(stored) == AllPairs(codes, codes)
    assert sum(map(len, stored.values())) == 400
    listed = (("en", "de"), ("de", "en"))
    assert pairs_from_json(pairs_to_json(listed)) == listed
