"""Model folders, their configuration, weights and pairs, and files that are written at once."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from model.analysis.confidence import weights_hash
from model.atomic_write import atomic_write
from model.config import PRESETS, ConfigError, ModelConfig, base, big, small
from model.convert.importer import import_model
from model.model_folder import (
    SHORTLIST,
    AllPairs,
    FolderError,
    ModelFolder,
    TokenizerFiles,
    pairs_from_json,
    pairs_to_json,
    read_folder,
)
from model.pairs import MOST_KEPT, Pair, folded, split
from model.weight_files import (
    INDEX,
    SCALES,
    SINGLE,
    SafetensorFiles,
    save_arrays,
    weight_bytes,
    weight_files,
)
from tests.support.models.firefox_models import random_firefox
from tests.support.models.folders import new_folder
from tests.support.models.random_models import VARIANTS, random_model


def folder(path: Path, **changes: Any) -> ModelFolder:
    fields = {"pairs": (("en", "de"), ("en", "fr")), "tags": {"de": ">>de<<", "fr": ">>fr<<"}}
    return new_folder(
        path, changes.pop("model", ModelConfig(vocab_size=300)), **{**fields, **changes}
    )


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
    for content, reason in (
        ("{", "JSON"),
        ("[]", "format"),
        ("[" * 100_000, "JSON"),
        (" " * 1_000_001, "larger"),
    ):
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


def test_the_file_changes_at_the_end_of_the_block(tmp_path: Path) -> None:
    file = tmp_path / "alignment.json"
    file.write_text("old")
    with atomic_write(file) as part:
        part.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("before", ["old", None])
def test_an_exception_leaves_the_file_as_it_was(before: str | None, tmp_path: Path) -> None:
    file = tmp_path / "alignment.json"
    if before is not None:
        file.write_text(before)
    with pytest.raises(OSError, match="full"), atomic_write(file) as part:
        part.write_text("ne")
        raise OSError("The disk is full.")
    assert (file.read_text() if file.exists() else None) == before
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_json_round_trip(variant: str) -> None:
    config = random_model(variant).config
    assert ModelConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_presets_have_the_sizes_of_the_paper() -> None:
    assert (base(100).d_model, base(100).heads, base(100).d_ff, base(100).dropout) == (
        512,
        8,
        2048,
        0.1,
    )
    assert (base(100).encoder_layers, base(100).decoder_layers) == (6, 6)
    assert (big(100).d_model, big(100).heads, big(100).d_ff, big(100).dropout) == (
        1024,
        16,
        4096,
        0.3,
    )
    assert small(100).d_model < base(100).d_model
    assert small(100, d_ff=77).d_ff == 77
    assert all(preset(100).vocab_size == 100 for preset in PRESETS.values())


def test_config_is_immutable_and_replace_validates() -> None:
    config = base(100)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 4  # type: ignore[misc]
    assert config.replace(heads=4).heads == 4
    with pytest.raises(ConfigError):
        config.replace(heads=7)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"vocab_size": 0}, "vocab_size"),
        ({"vocab_size": True}, "vocab_size"),
        ({"vocab_size": 10**12}, "vocab_size"),
        ({"d_model": "512"}, "d_model"),
        ({"d_model": 30, "heads": 4}, "heads"),
        ({"encoder_layers": 10**9}, "encoder_layers"),
        ({"decoder_layers": 1.5}, "decoder_layers"),
        ({"max_length": 10**9}, "max_length"),
        ({"dropout": 1.0}, "dropout"),
        ({"dropout": "no"}, "dropout"),
        ({"norm": "middle"}, "norm"),
        ({"activation": "tanh"}, "activation"),
        ({"positions": "none"}, "positions"),
        ({"positions": "rotary"}, "positions"),
        ({"positions": "sinusoidal", "d_model": 9, "heads": 1}, "sinusoidal"),
        ({"norm_epsilon": 0}, "norm_epsilon"),
        ({"source_vocab_size": 50}, "tied_embeddings"),
        ({"source_vocab_size": -5, "tied_embeddings": False}, "source_vocab_size"),
        ({"tied_embeddings": 1}, "tied_embeddings"),
        ({"eos_id": 100}, "eos_id"),
        ({"pad_id": -1}, "pad_id"),
        ({"decoder_start_id": None}, "decoder_start_id"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_errors_name_the_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ModelConfig.from_dict({"vocab_size": 100, **fields})


@pytest.mark.parametrize("fields", [[], None, "text", {}, {"d_model": 64}])
def test_values_that_are_not_a_config_are_rejected(fields: Any) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        ModelConfig.from_dict(fields)


def memory(count: int) -> list[Pair]:
    """Pairs of which every source occurs twice, in two spellings."""
    words = [
        f"w{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}"
        for n in range(count // 2)
    ]
    return [
        Pair(text, text) for word in words for text in (f"The {word} 1", f"the {word.upper()}  22")
    ]


@pytest.mark.parametrize(("count", "kept"), [(8, 0), (100, 10), (2_000, 200), (30_000, MOST_KEPT)])
@pytest.mark.parametrize("terms", [0, 30])
def test_the_tenth(count, kept, terms):
    glossary = [Pair(pair.source.upper(), "term", term=True) for pair in memory(count)[:terms]]
    training, judgement = split([*memory(count), *glossary])
    assert len(judgement) == (kept if not terms else min(max(0, count - terms) // 10, kept))
    assert not {folded(pair.source) for pair in training} & {
        folded(pair.source) for pair in judgement
    }
    assert len(training) + len(judgement) in (count + len(glossary), count + len(glossary) - 1)
    assert set(glossary) <= set(training)
    assert set(split(memory(count)[::-1])[1]) == set(split(memory(count))[1])


def shards(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(name.encode())
    (folder / INDEX).write_text(
        json.dumps({"weight_map": {str(i): name for i, name in enumerate(names)}})
    )


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


RANDOM = np.random.default_rng(0)
INTEGERS = RANDOM.integers(-127, 128, (40, 30)).astype(np.float32)


@pytest.mark.parametrize(
    ("tensor", "width"),
    [
        (INTEGERS * (np.float32(1) / np.float32(531.7)), 1),
        (INTEGERS.T * np.float32(3e-5), 1),
        (INTEGERS[0] * np.float32(0.01), 4),  # no matrix
        (RANDOM.normal(size=(40, 30)).astype(np.float32), 4),
        ((INTEGERS * 2 + 1) * np.float32(0.01), 4),  # odd numbers to 255
        (INTEGERS.astype(np.float16), 2),
        (np.zeros((3, 3), np.float32), 4),
    ],
)
def test_a_tensor_is_stored_in_the_least_exact_width(
    tensor: np.ndarray, width: int, tmp_path: Path
) -> None:
    save_arrays({"tensor": tensor}, tmp_path / "model.safetensors")
    read = SafetensorFiles([tmp_path / "model.safetensors"])
    assert read._files["tensor"][1].get_tensor("tensor").nbytes == width * tensor.size
    assert read.stored("tensor").tobytes() == np.ascontiguousarray(tensor).tobytes()


def test_an_imported_firefox_model_has_the_size_of_its_file(tmp_path: Path) -> None:
    random_firefox(tmp_path / "ende", d_model=128, d_ff=512)
    folder = import_model(tmp_path / "ende", tmp_path / "weights")
    file = tmp_path / "ende" / "model.ende.intgemm.alphas.bin"
    positions = SafetensorFiles([folder.path / "model.safetensors"])["positions.weight"].nbytes
    assert (
        folder.path / "model.safetensors"
    ).stat().st_size - positions < 1.05 * file.stat().st_size


@pytest.mark.parametrize(
    "scales", ["[]", "{", '{"tensor": "x"}', '{"tensor": null}', '{"other": 1}', '{"tensor": NaN}']
)
def test_damaged_scales_are_refused(scales: str, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"tensor": np.ones((2, 2), np.int8)}, file, metadata={SCALES: scales})
    with pytest.raises(FolderError):
        SafetensorFiles([file])["tensor"]
