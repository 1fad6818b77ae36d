"""Tests that paths of other formats are refused with a sentence that names the supported ones."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from model.convert.importer import ImportOptions, import_model
from model.convert.source_files import ImportRefused
from server.cli import import_model as import_cli
from server.errors import AttentiveError


@pytest.mark.parametrize("name", ["model.onnx", "model.npz", "model.safetensors", "opus-2020-02-26.zip", "notes.txt"])
def test_other_formats_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    file = tmp_path / "model" / name
    file.write_bytes(b"PK")
    for path in (file.parent, file):
        with pytest.raises(ImportRefused, match=r"none of the files .*config.json .* unpacked; ") as refusal:
            import_model(path, tmp_path / "weights", ImportOptions(name="x"))
        assert "\n" not in str(refusal.value)
    with pytest.raises(ImportRefused, match="does not exist"):
        import_model(tmp_path / "absent", tmp_path / "weights")
    assert not (tmp_path / "weights").exists()


def test_pointers_of_git_lfs_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 298763\n"
    (folder / "pytorch_model.bin").write_text(pointer)
    with pytest.raises(ImportRefused, match=r"pytorch_model\.bin is a pointer of Git LFS .* `git lfs pull`"):
        import_model(folder, tmp_path / "weights")


@pytest.mark.parametrize("error", [None, MemoryError()])
def test_a_model_that_does_not_fit_is_refused_with_its_size(
    error: MemoryError | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is read, or where the memory that was free is used up while it is."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("model-1.safetensors", "model-2.safetensors", "flax.msgpack"):
        (folder / name).write_bytes(bytes(3_000_000))
    monkeypatch.setattr(import_cli, "free_memory", lambda: 11_000_000 if error is None else 13_000_000)
    monkeypatch.setattr(import_cli, "import_model", Mock(side_effect=error))
    with pytest.raises(AttentiveError, match=r"needs about 12 MB of memory, and 1[13] MB are free\.$"):
        import_cli.import_from(folder, tmp_path / "weights", ImportOptions())
