"""Tests of the command pull against a hub on 127.0.0.1."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from model.convert import downloads
from model.convert.downloads import RemoteFile, fetch
from model.convert.hub import download
from model.model_folder import FolderError, read_folder
from server.__main__ import main
from tests.support.models.marian_models import random_huggingface
from tests.support.servers.fake_hub import COMMIT, MODEL, FakeHub, fake_hub

pytest.importorskip("transformers")
LARGE = "model.safetensors"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hub") / "model"
    random_huggingface(path)
    (path / "flax_model.msgpack").write_bytes(b"not wanted")
    return path


@pytest.fixture
def hub(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    path = shutil.copytree(published, tmp_path / "hub")
    with fake_hub(path) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        yield served


def failure(weights: Path, name: str = MODEL, revision: str = "main") -> str:
    """Returns the one sentence of a download that fails."""
    with pytest.raises(FolderError) as raised, download(name, weights, revision):
        pass
    message = str(raised.value)
    assert message.endswith(".") and "\n" not in message
    return message


def test_pulled_models_are_pinned_and_stored_once(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "weights"
    assert main(["pull", MODEL, "--weights", str(weights)]) == 0
    folder = read_folder(weights / "opus-mt-en-de")
    assert folder.origin == f"https://huggingface.co/{MODEL}/tree/{COMMIT}"
    assert folder.pairs == (("en", "de"),)
    assert "en-de" in capsys.readouterr().out
    assert "flax_model.msgpack" not in {name for name, _ in hub.requests}
    assert [path.name for path in weights.iterdir()] == ["opus-mt-en-de"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("opus-mt-en-de", "exists already"), ("not a name", "cannot be a folder's name")],
)
def test_a_name_that_cannot_be_used_is_refused_before_the_download(
    name: str, reason: str, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "opus-mt-en-de").mkdir()
    assert main(["pull", MODEL, "--name", name, "--weights", str(tmp_path)]) == 1
    assert reason in capsys.readouterr().err
    assert not hub.requests


def test_a_file_with_a_wrong_hash_is_deleted(hub: FakeHub, tmp_path: Path) -> None:
    for name in (LARGE, "config.json"):
        hub.spoiled = name
        assert f"{name} of {MODEL} was damaged" in failure(tmp_path / name)
        assert not list((tmp_path / name).glob(f".pull/*/{name}*"))
    hub.spoiled = ""
    with download(MODEL, tmp_path / LARGE) as (path, _):
        assert (path / LARGE).read_bytes() == (hub.path / LARGE).read_bytes()


@pytest.mark.parametrize("cuts", [1, 5])
def test_an_interrupted_download_continues(cuts: int, hub: FakeHub, tmp_path: Path) -> None:
    hub.cut, hub.cuts = LARGE, cuts
    with download(MODEL, tmp_path) as (path, _):
        assert (path / LARGE).read_bytes() == (hub.path / LARGE).read_bytes()
    starts = [start for name, start in hub.requests if name == LARGE]
    assert starts[:2] == [0, (hub.path / LARGE).stat().st_size // 2]
    assert len(starts) == cuts + 1
    assert starts == sorted(set(starts))


def test_a_download_that_brings_nothing_more_ends_and_continues_later(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.cut = LARGE
    assert "pull it again" in failure(tmp_path)
    hub.cut = ""
    with download(MODEL, tmp_path) as (path, _):
        assert (path / LARGE).read_bytes() == (hub.path / LARGE).read_bytes()
    size = (hub.path / LARGE).stat().st_size
    assert [start for name, start in hub.requests if name == LARGE][-1] > 0.9 * size


def test_packed_files_continue_and_begin_again_where_the_server_has_less(
    hub: FakeHub, tmp_path: Path
) -> None:
    data = (hub.path / LARGE).read_bytes()
    (hub.path / "lex.bin.gz").write_bytes(gzip.compress(data))
    address = f"{hub.address}/{MODEL}/resolve/{COMMIT}/lex.bin.gz"
    file = RemoteFile("lex.bin", address, len(data) + 1_000, exact=False, packed=True)
    hub.cut, hub.cuts = "lex.bin.gz", 3
    fetch(file, tmp_path, "x")
    starts = [start for _, start in hub.requests]
    assert starts == sorted(set(starts))
    assert len(starts) == 4
    for part in (gzip.compress(data), gzip.compress(data) + bytes(9)):
        (tmp_path / "lex.bin").unlink()
        (tmp_path / "lex.bin.part").write_bytes(part)
        fetch(file, tmp_path, "x")
        assert (tmp_path / "lex.bin").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("lex")] == ["lex.bin"]


def test_an_interrupted_process_leaves_what_can_be_continued(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_BLOCK", 4096)
    with monkeypatch.context() as patched:
        patched.setattr(
            downloads.tqdm, "update", Mock(side_effect=[None] * 9 + [KeyboardInterrupt])
        )
        with pytest.raises(KeyboardInterrupt), download(MODEL, tmp_path):
            pass
    with download(MODEL, tmp_path):
        assert [start for name, start in hub.requests if start] != []


def test_an_empty_file_is_downloaded(hub: FakeHub, tmp_path: Path) -> None:
    (hub.path / "README.md").write_bytes(b"")
    with download(MODEL, tmp_path) as (path, _):
        assert (path / "README.md").read_bytes() == b""


def test_missing_files_and_redirects_without_end_are_named(hub: FakeHub, tmp_path: Path) -> None:
    hub.absent = "vocab.json"
    assert failure(tmp_path).startswith(
        f"vocab.json of {MODEL} could not be downloaded (404): the server does not have it"
    )
    hub.absent, hub.circle = "", LARGE
    assert (
        f"{LARGE} of {MODEL} could not be downloaded (302): its address redirects without end"
        in failure(tmp_path)
    )
    hub.refusal = (404, "")  # another server than a hub
    assert "(404): the server does not have it" in failure(tmp_path)


@pytest.mark.parametrize("kind", ["t5", "pegasus", "bart"])
def test_other_families_are_refused_before_the_download(
    kind: str, hub: FakeHub, tmp_path: Path
) -> None:
    hub.model_type = kind
    assert "use facebook/m2m100_418M or" in failure(tmp_path)
    assert not hub.requests


def test_two_downloads_of_a_model_do_not_write_the_same_files(hub: FakeHub, tmp_path: Path) -> None:
    with download(MODEL, tmp_path):
        assert "Another process is downloading" in failure(tmp_path)
    assert not list(tmp_path.glob(".pull"))


def test_a_file_of_another_commit_is_replaced(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut = LARGE
    failure(tmp_path)
    for path in tmp_path.glob(".pull/*"):
        (path / "config.json").write_text("{}")
        (path / "target_vocab.json").write_text("{}")
    hub.cut = ""
    with download(MODEL, tmp_path) as (path, _):
        assert (path / "config.json").read_bytes() == (hub.path / "config.json").read_bytes()
        assert not (path / "target_vocab.json").exists()


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        ((401, "GatedRepo"), "is gated: accept its conditions"),
        ((403, "GatedRepo"), "is gated: accept its conditions"),
        ((401, "RepoNotFound"), "has no model"),
        ((404, "RepoNotFound"), "has no model"),
        ((429, ""), "try again in 70 seconds"),
        ((503, ""), "(503): try again later"),
    ],
)
def test_refusals_of_the_hub_are_told_apart(
    refusal: tuple[int, str], sentence: str, hub: FakeHub, tmp_path: Path
) -> None:
    hub.refusal = refusal
    assert sentence in failure(tmp_path)


def test_unknown_models_revisions_and_invalid_names_are_refused(
    hub: FakeHub, tmp_path: Path
) -> None:
    assert "has no model" in failure(tmp_path, "Helsinki-NLP/opus-mt-en-xx")
    assert "no revision nowhere" in failure(tmp_path, revision="nowhere")
    for name in ("opus-mt-en-de", "../x/y", "a/b/c", "https://example.org/a/b"):
        assert "not the name" in failure(tmp_path, name)
    (hub.path / "source.spm").unlink()
    assert "lacks source.spm" in failure(tmp_path)


def test_import_and_export_commands(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = ["--weights", str(tmp_path / "weights")]
    assert (
        main(
            [
                "import",
                str(published),
                "--name",
                "mine",
                "--source",
                "en",
                "--target",
                "de,de",
                *weights,
            ]
        )
        == 0
    )
    assert main(["import", str(published), "--name", "mine", *weights]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["export", "--to", "huggingface", "mine", str(tmp_path / "hf"), *weights]) == 0
    assert (tmp_path / "hf" / "model.safetensors").is_file()
    assert main(["export", "--to", "huggingface", "yours", str(tmp_path / "no"), *weights]) == 2
    assert "there are: mine" in capsys.readouterr().err
    pytest.importorskip("ctranslate2")
    flags = ["--to", "ctranslate2", "--quantization", "int8", *weights]
    assert main(["export", *flags, str(tmp_path / "weights" / "mine"), str(tmp_path / "ct2")]) == 0
    assert (tmp_path / "ct2" / "model.bin").is_file()
