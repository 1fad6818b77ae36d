"""Firefox's models: their import, on random ones, with lexical shortlists, and the list that Mozilla
publishes. tests/conformance/test_bergamot.py compares with Firefox's own engine."""

from __future__ import annotations

import gzip
import json
import math
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.checkpoint import load_model
from model.convert.importer import import_model
from model.convert.marian.archives import read_archive
from model.convert.marian.firefox import download, find
from model.model_folder import FolderError, ImportRefused, read_folder
from model.shortlist import read_shortlist
from server.__main__ import main
from tests.support.models.firefox_models import (
    binary_file,
    binary_shortlist,
    random_firefox,
    random_lists,
    write_firefox,
)
from tests.support.servers.fake_firefox_list import MODEL, SHORTLIST, PublishedModels


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


@pytest.fixture
def published(tmp_path: Path) -> Iterator[PublishedModels]:
    (tmp_path / "served").mkdir()
    served = PublishedModels(tmp_path / "served")
    yield served
    served.close()


def test_a_pulled_model_names_size_licence_and_scores(
    published: PublishedModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--firefox-models", published.address, "--weights", str(tmp_path / "weights")]
    assert main(["pull", "firefox/en-de", *flags]) == 0
    said = capsys.readouterr().out
    assert "MB; licence: MPL-2.0; BLEU 40.02 on FLORES; COMET 0.8651 on FLORES." in said
    folder = read_folder(tmp_path / "weights" / "firefox-en-de")
    assert (list(folder.pairs), folder.license) == ([("en", "de")], "MPL-2.0")
    assert published.entry["files"]["model"]["uncompressedHash"] in folder.origin
    assert read_shortlist(folder) is not None
    assert not (tmp_path / "weights" / ".pull").exists()


def test_released_and_large_models_are_preferred(published: PublishedModels) -> None:
    tiny, unreleased = (
        published.entry | {"architecture": "tiny"},
        published.entry | {"releaseStatus": None},
    )
    published.models["en-de"] = [unreleased, tiny]
    assert find("en-de", published.address).architecture == "tiny"
    published.models["en-de"] = [tiny, published.entry]
    assert find("en-de", published.address).architecture == "base-memory"


def test_codes_of_mozilla_and_ours_name_the_same_pair(published: PublishedModels) -> None:
    published.models["en-zh_hant"] = [published.entry | {"targetLanguage": "zh_hant"}]
    for pair in ("en-zh_hant", "en-zh-Hant"):
        assert find(pair, published.address).target == "zh-Hant"


def spoil_weights(published: PublishedModels) -> None:
    spoiled = bytearray((published.path / "made" / MODEL).read_bytes())
    spoiled[-1] ^= 1
    (published.path / f"{MODEL}.gz").write_bytes(gzip.compress(bytes(spoiled)))


def cut_vocabulary(published: PublishedModels) -> None:
    file = published.path / "vocab.ende.spm.gz"
    file.write_bytes(file.read_bytes()[:-200])


def enlarge(published: PublishedModels) -> None:
    published.entry["files"]["model"]["uncompressedSize"] //= 2


def failure(published: PublishedModels, weights: Path) -> str:
    """Returns the one sentence of a download that fails."""
    with pytest.raises(FolderError) as raised, download(find("en-de", published.address), weights):
        pass
    assert str(raised.value).endswith(".") and "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("damage", [spoil_weights, cut_vocabulary, enlarge])
def test_damaged_files_are_deleted(
    damage: Callable[[PublishedModels], None], published: PublishedModels, tmp_path: Path
) -> None:
    damage(published)
    assert "damaged on the way" in failure(published, tmp_path)
    left = [file.name for file in (tmp_path / ".pull").rglob("*") if file.is_file()]
    assert all(name == MODEL and damage is cut_vocabulary for name in left)


def test_a_full_disk_is_reported_and_the_next_download_begins_the_file_again(
    published: PublishedModels, tmp_path: Path
) -> None:
    whole = (published.path / "vocab.ende.spm.gz").read_bytes()
    cut_vocabulary(published)
    failure(published, tmp_path)
    (published.path / "vocab.ende.spm.gz").write_bytes(whole)
    part = next(tmp_path.glob(".pull/*")) / "vocab.ende.spm.part"
    part.symlink_to("/dev/full")
    assert "is full; free some space and pull again." in failure(published, tmp_path)
    part.unlink()
    part.write_bytes(whole[:100])  # of a killed process
    with download(find("en-de", published.address), tmp_path) as (path, _):
        assert (path / "vocab.ende.spm").read_bytes() == gzip.decompress(whole)


def test_without_a_connection_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        "--firefox-models",
        "http://127.0.0.1:1/models.json",
        "--weights",
        str(tmp_path / "weights"),
    ]
    assert main(["pull", "firefox/en-de", *flags]) == 1
    assert (
        "(Connection refused): check the connection, or download its files elsewhere"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "weights").exists()


def test_json_says_that_a_model_needs_pytorch(
    tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def needs_torch(*_: object) -> None:
        raise ModuleNotFoundError(name="torch")

    monkeypatch.setattr("server.cli.pull.pull", needs_torch)
    assert main(["pull", "firefox/en-de", "--json", "--weights", str(tmp_path)]) == 1
    assert (
        "with PyTorch only. PyTorch is not installed"
        in json.loads(capsys.readouterr().out)["error"]
    )


def test_missing_pairs_files_and_lists_are_told_apart(
    published: PublishedModels, tmp_path: Path
) -> None:
    address = published.address
    with pytest.raises(FolderError, match=r"no model for en-xx; http.* lists its models"):
        find("en-xx", address)
    with pytest.raises(FolderError, match="could not be downloaded \\(404\\)"):
        find("en-de", address.replace("models.json", "nothing.json"))
    with pytest.raises(FolderError, match="not an address"):
        find("en-de", "file:///etc/passwd")
    (published.path / "vocab.ende.spm.gz").unlink()
    assert "could not be downloaded (404)" in failure(published, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"models": {}}',
        '{"baseUrl": "http://x", "models": {"en-de": [{"files": {"model": {}}}]}}',
    ],
)
def test_other_answers_are_refused(text: str, published: PublishedModels) -> None:
    address = published.address
    (published.path / "models.json").write_text(text)
    with pytest.raises(FolderError, match="not a list of Firefox's models"):
        find("en-de", address)


@pytest.mark.parametrize("vocabularies", [1, 2])
def test_a_shortlist_is_imported(vocabularies: int, tmp_path: Path) -> None:
    config = random_firefox(tmp_path / "ende", vocabularies=vocabularies).config
    sources = config.source_vocab_size or config.vocab_size
    lists = random_lists(sources, config.vocab_size, 3)
    (tmp_path / "ende" / SHORTLIST).write_bytes(binary_shortlist(lists, 16))
    found = read_shortlist(import_model(tmp_path / "ende", tmp_path / "weights"))
    assert found is not None
    assert (found.first, found.shared, found.vocabulary) == (
        16,
        vocabularies == 1,
        config.vocab_size,
    )
    assert [
        found.targets[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:], strict=False)
    ] == lists
    assert np.array_equal(found.offsets, np.arange(sources + 1) * 3)


def damaged() -> dict[str, tuple[bytes, str]]:
    whole = binary_shortlist(random_lists(500, 100, 3), 16)
    descending = bytearray(whole)
    descending[48 + 8 : 48 + 16] = (1400).to_bytes(8, "little")
    return {
        "empty": (b"", "too short"),
        "another format": (binary_shortlist([[1]], 16, magic=7), "not a binary shortlist"),
        "truncated": (whole[:-4], "size that its header states"),
        "unknown targets": (binary_shortlist([[100_000]] * 500, 16), "outside the vocabulary"),
        "descending offsets": (bytes(descending), "do not ascend"),
    }


@pytest.mark.parametrize("case", damaged())
def test_a_damaged_shortlist_costs_the_shortlist_and_not_the_model(
    case: str, tmp_path: Path, caplog
) -> None:
    data, message = damaged()[case]
    random_firefox(tmp_path / "ende")
    (tmp_path / "ende" / SHORTLIST).write_bytes(data)
    assert read_shortlist(import_model(tmp_path / "ende", tmp_path / "weights")) is None
    assert message in caplog.text


def test_marian_leaves_out_the_offsets_of_the_last_sources_without_targets(tmp_path: Path) -> None:
    """Mozilla's files have as many offsets as the vocabulary has pieces: one too few."""
    config = random_firefox(tmp_path / "ende").config
    lists = random_lists(config.vocab_size - 1, config.vocab_size, 3)
    (tmp_path / "ende" / SHORTLIST).write_bytes(binary_shortlist(lists, 16))
    found = read_shortlist(import_model(tmp_path / "ende", tmp_path / "weights"))
    assert found is not None and found.sources == config.vocab_size
    assert [found.targets[a:b].tolist() for a, b in pairwise(found.offsets)] == [*lists, []]


def test_two_shortlists_are_not_used(tmp_path: Path, caplog) -> None:
    random_firefox(tmp_path / "ende")
    for name in (SHORTLIST, "lex.ende.bin"):
        (tmp_path / "ende" / name).write_bytes(b"")
    assert read_shortlist(import_model(tmp_path / "ende", tmp_path / "weights")) is None
    assert "2 shortlists" in caplog.text
