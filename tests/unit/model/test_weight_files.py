"""Which files of a model folder have its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model.analysis.confidence import weights_hash
from model.model_folder import SHORTLIST, FolderError
from model.weight_files import INDEX, SINGLE, weight_bytes, weight_files


def shards(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(name.encode())
    (folder / INDEX).write_text(json.dumps({"weight_map": {str(i): name for i, name in enumerate(names)}}))


def test_a_shortlist_and_files_that_no_index_names_are_not_weights(tmp_path: Path) -> None:
    shards(tmp_path, "b.safetensors", "a.safetensors", "b.safetensors")
    before = weights_hash(tmp_path)
    for name in (SHORTLIST, "step-5.safetensors"):
        (tmp_path / name).write_bytes(b"no weights")
    assert weight_files(tmp_path) == [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    assert weight_bytes(tmp_path) == 2 * len("a.safetensors")
    assert weights_hash(tmp_path) == before


def test_a_single_file_comes_before_an_index(tmp_path: Path) -> None:
    shards(tmp_path, "a.safetensors")
    (tmp_path / SINGLE).write_bytes(b"weights")
    assert weight_files(tmp_path) == [tmp_path / SINGLE]
    assert weight_bytes(tmp_path) == len(b"weights")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "holds no model.safetensors and no"),
        ("{", "not an index"),
        ("[" * 100_000, "not an index"),
        ("[]", "not an index"),
        ({"weight_map": {"a": 5, "b": "b"}}, "not an index"),
        ({"weight_map": {"a": 5}}, "names 5,"),
        ({"weight_map": {"a": "../secret"}}, "not a plain file name"),
        ({"weight_map": {"a": "/etc/passwd"}}, "not a plain file name"),
        ('{"weight_map": 3}', "not an index"),
        ({"weight_map": {"a": ["x"]}}, "not an index"),
        ({"weight_map": {"a": "gone.safetensors"}}, "lacks the shard gone"),
    ],
)
def test_missing_and_damaged_files_are_refused(content: Any, reason: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / INDEX).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(FolderError, match=reason):
        weight_files(tmp_path)
