"""Tests of `download` and of the commands pull, import and export."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from model.convert.hub import download
from model.model_folder import FolderError, read_folder
from server.__main__ import main
from tests.support.marian_models import random_huggingface

huggingface_hub = pytest.importorskip("huggingface_hub")
pytest.importorskip("transformers")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Large:
    sha256: str


@dataclass
class Listed:
    """An entry of the hub's file list. Large files have a SHA-256 hash, small files have a git hash."""

    rfilename: str
    blob_id: str | None = None
    lfs: Large | None = None


@dataclass
class FakeHub:
    """A hub with one model from a local folder. `downloads` records the name and revision of each download."""

    path: Path
    downloads: list[tuple[str, str]] = field(default_factory=list)

    def model_info(self, repository: str, *, revision: str, files_metadata: bool) -> Any:
        assert files_metadata
        if repository != "Helsinki-NLP/opus-mt-en-de" or revision not in ("main", COMMIT):
            raise _error(huggingface_hub.errors.RepositoryNotFoundError)
        return _Info(COMMIT, [self.listed(file) for file in sorted(self.path.iterdir())])

    def listed(self, file: Path) -> Listed:
        data = file.read_bytes()
        if file.suffix in (".safetensors", ".bin", ".spm"):
            return Listed(file.name, lfs=Large(hashlib.sha256(data).hexdigest()))
        return Listed(file.name, hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest())

    def hf_hub_download(self, repository: str, name: str, *, revision: str, cache_dir: Path | None) -> str:
        self.downloads.append((name, revision))
        return str(self.path / name)


@dataclass
class _Info:
    sha: str
    siblings: list[Listed]


def _error(kind: Any) -> Exception:
    error: Exception = kind.__new__(kind)
    return error


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    random_huggingface(tmp_path / "hub")
    (tmp_path / "hub" / "flax_model.msgpack").write_bytes(b"not wanted")
    fake = FakeHub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: fake)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake.hf_hub_download)
    return fake


def test_pulled_models_are_pinned_to_a_commit_and_record_their_origin(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull", "Helsinki-NLP/opus-mt-en-de", "--weights", str(tmp_path / "weights")]) == 0
    folder = read_folder(tmp_path / "weights" / "opus-mt-en-de")
    assert folder.origin == f"https://huggingface.co/Helsinki-NLP/opus-mt-en-de/tree/{COMMIT}"
    assert folder.pairs == (("en", "de"),)
    assert "en-de" in capsys.readouterr().out
    assert {revision for _, revision in hub.downloads} == {COMMIT}
    assert "flax_model.msgpack" not in {name for name, _ in hub.downloads}


def test_a_damaged_file_is_refused(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("model.safetensors", "config.json"):
        whole = (hub.path / name).read_bytes()
        info = hub.model_info("Helsinki-NLP/opus-mt-en-de", revision="main", files_metadata=True)
        (hub.path / name).write_bytes(whole[:-1] + b"?")
        with monkeypatch.context() as patched, pytest.raises(FolderError, match=f"{name} .*damaged"):
            patched.setattr(hub, "model_info", lambda *_, info=info, **__: info)
            download("Helsinki-NLP/opus-mt-en-de")
        (hub.path / name).write_bytes(whole)


def test_connection_errors_are_reported_as_folder_errors(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (huggingface_hub.errors.OfflineModeIsEnabled("offline"), OSError("no route"), TimeoutError()):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(hub, "model_info", fail)
        with pytest.raises(FolderError, match="check the connection"):
            download("Helsinki-NLP/opus-mt-en-de")


def test_unknown_models_missing_files_and_invalid_names_are_refused(hub: FakeHub) -> None:
    with pytest.raises(FolderError, match="no model"):
        download("Helsinki-NLP/opus-mt-en-xx")
    (hub.path / "source.spm").unlink()
    with pytest.raises(FolderError, match=r"lacks source\.spm"):
        download("Helsinki-NLP/opus-mt-en-de")
    for name in ("opus-mt-en-de", "../x/y", "a/b/c", "https://example.org/a/b"):
        with pytest.raises(FolderError, match="not the name"):
            download(name)


def test_import_and_export_commands(hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = ["--weights", str(tmp_path / "weights")]
    assert main(["import", str(hub.path), "--name", "mine", "--source", "en", "--target", "de,de", *weights]) == 0
    assert main(["import", str(hub.path), "--name", "mine", *weights]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["export", "--to", "huggingface", "mine", str(tmp_path / "hf"), *weights]) == 0
    assert (tmp_path / "hf" / "model.safetensors").is_file()
    assert main(["export", "--to", "huggingface", "yours", str(tmp_path / "no"), *weights]) == 1
    assert "there are: mine" in capsys.readouterr().err
    pytest.importorskip("ctranslate2")
    arguments = [
        "--to",
        "ctranslate2",
        "--quantization",
        "int8",
        str(tmp_path / "weights" / "mine"),
        str(tmp_path / "ct2"),
    ]
    assert main(["export", *arguments, *weights]) == 0
    assert (tmp_path / "ct2" / "model.bin").is_file()
