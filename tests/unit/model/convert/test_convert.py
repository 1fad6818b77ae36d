"""What all imports share: published models, downloads, languages, unknown formats, checkpoints and
arrays."""

from __future__ import annotations

import dataclasses
import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from model.config import ModelConfig
from model.convert.ctranslate2.model_binary import SPECIFICATION, read_model_binary
from model.convert.downloads import NotPublished, Refused, discard_pull, pull_folder
from model.convert.huggingface.weights import read_checkpoint
from model.convert.importer import ImportOptions, import_model
from model.convert.languages import find_pairs, language_code, language_tags
from model.convert.published import folder_in, folder_of, full_name, pair_of, published_models
from model.model_folder import FolderError, ImportRefused
from server.cli import import_model as import_cli
from server.errors import AttentiveError
from tests.support.models.folders import new_folder


@pytest.mark.parametrize(
    ("name", "full", "folder", "pair"),
    [
        ("en-de", "firefox/en-de", "firefox-en-de", ("en", "de")),
        ("fr-wls", "Helsinki-NLP/opus-mt-fr-wls", "opus-mt-fr-wls", ("fr", "wls")),
        ("eu-gl", "firefox/eu-gl", "firefox-eu-gl", ("eu", "gl")),  # in no list
        ("firefox/en-zh_hant", "firefox/en-zh_hant", "firefox-en-zh-hant", ("en", "zh-Hant")),
        ("argos/en-zt", "argos/en-zt", "argos-en-zt", ("en", "zh-Hant")),
        ("Helsinki-NLP/opus-mt-en-it", "Helsinki-NLP/opus-mt-en-it", "opus-mt-en-it", ("en", "it")),
        (
            "https://huggingface.co/facebook/m2m100_418M/tree/main",
            "facebook/m2m100_418M",
            "facebook--m2m100_418M",
            None,
        ),
        ("https://hf.co/a/b/", "a/b", "a--b", None),
    ],
)
def test_a_name_has_one_full_form_folder_and_pair(
    name: str, full: str, folder: str, pair: tuple[str, str] | None
) -> None:
    assert (full_name(name), folder_of(full_name(name)), pair_of(full_name(name))) == (
        full,
        folder,
        pair,
    )
    assert full_name(full_name(name)) == full


@pytest.mark.parametrize(
    "name",
    [
        "",
        "german",
        "en_de",
        "../x",
        "a/../b",
        "x/y/z",
        "firefox/",
        "firefox/german",
        "https://evil.example/a/b",
        "-/-",
        "https://hf.co/a/b/tree/v1",
    ],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(FolderError, match="is not the name of a model"):
        full_name(name)


def test_the_list_has_firefox_first_and_only_stated_figures() -> None:
    models = published_models()
    assert len({model.name for model in models}) == len(models) > 1_000
    assert {model.publisher for model in models} == {
        "Mozilla",
        "University of Helsinki",
        "Argos Open Tech",
    }
    for model in models:
        assert model.source and model.target and model.license
        assert (model.publisher == "Mozilla") == (10_000_000 < model.bytes < 100_000_000)
        assert set(model.scores) in (set(), {"bleu", "comet"}) and (
            not model.scores or model.publisher == "Mozilla"
        )
    best = next(model for model in models if (model.source, model.target) == ("en", "de"))
    assert (best.name, best.license, best.scores["bleu"]) == ("firefox/en-de", "MPL-2.0", 40.0)


def test_models_of_the_same_name_of_two_owners_have_folders_of_their_own(tmp_path: Path) -> None:
    names = [
        "Helsinki-NLP/opus-mt-en-good",
        "myteam/opus-mt-en-good",
        "my/team-opus-mt-en-good",
        "team/opus-mt-en-good",
    ]
    assert len({folder_of(name) for name in names}) == len(names)
    assert folder_of(names[0]) == "opus-mt-en-good"


def test_a_folder_of_an_earlier_version_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "m2m100_418M").mkdir()
    old = new_folder(tmp_path / "m2m100_418M", ModelConfig(vocab_size=64, d_model=8, heads=2))
    origin = "https://huggingface.co/facebook/m2m100_418M/tree/0123"
    old = dataclasses.replace(old, origin=origin)
    (old.path / "config.json").write_text(old.to_json())
    assert folder_in(tmp_path, "facebook/m2m100_418M") == "m2m100_418M"
    assert folder_in(tmp_path, "myteam/m2m100_418M") == "myteam--m2m100_418M"
    assert folder_in(tmp_path / "nowhere", "facebook/m2m100_418M") == "facebook--m2m100_418M"


def test_what_a_download_has_left_is_removed_unless_it_goes_on(tmp_path: Path) -> None:
    left = tmp_path / ".pull"
    for name in (
        "firefox-en-de--0123",
        "firefox-en-de--4567",
        "opus-mt-en-de",
        "firefox-en-de-x--0123",
    ):
        (left / name).mkdir(parents=True)
        (left / name / "model.bin.part").write_bytes(b"some")
    with pull_folder(tmp_path, "firefox-en-de--4567"):
        discard_pull(tmp_path, "firefox-en-de")
        assert sorted(folder.name for folder in left.iterdir()) == [
            "firefox-en-de--4567",
            "firefox-en-de-x--0123",
            "opus-mt-en-de",
        ]
    discard_pull(tmp_path, "firefox-en-de")
    discard_pull(tmp_path, "opus-mt-en-de")
    discard_pull(tmp_path, "firefox-en-de-x")
    assert not left.exists()
    discard_pull(tmp_path / "nowhere", "opus-mt-en-de")


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (NotPublished("It is not there."), True),
        (ImportRefused(Path("x"), ["it is of another architecture"]), True),
        (FolderError("The disk is full."), False),
        *[
            (Refused("It is refused.", status, ""), True)
            for status in (400, 401, 403, 404, 410, 451)
        ],
        *[
            (Refused("It is refused.", status, ""), False)
            for status in (408, 425, 429, 500, 502, 503, 301)
        ],
    ],
)
def test_only_what_another_try_cannot_change_is_final(error: FolderError, final: bool) -> None:
    assert error.final is final


HERE, NONE = Path("model"), (None, None)


@pytest.mark.parametrize(
    ("marian", "code"),
    [
        ("deu", "de"), ("de", "de"), ("cmn_Hans", "zh-Hans"), ("zho", "zh"), ("pob", "pt-BR"), ("pt_br", "pt-BR"),
        ("srp_Latn", "sr-Latn"), ("nds", "nds"), ("eng", "en"),
    ],
)  # fmt: skip
def test_marian_codes_become_language_codes(marian: str, code: str) -> None:
    assert language_code(marian) == code


def test_the_tag_with_the_lowest_id_is_used_for_a_language() -> None:
    vocabulary = {"</s>": 0, ">>zho<<": 5, ">>cmn<<": 3, ">>deu<<": 9, ">> x<<": 10, "x>>fra<<": 11}
    assert language_tags(vocabulary) == {"zh": ">>cmn<<", "zho": ">>zho<<", "de": ">>deu<<"}


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("opus-mt-en-de", [("en", "de")]),
        ("opus-mt-tc-big-fr-en", [("fr", "en")]),
        ("opus-mt-tc-base-uk-fi", [("uk", "fi")]),
        ("opus-mt-tatoeba-es-zh", [("es", "zh")]),
        ("opus-tatoeba-he-fr", [("he", "fr")]),
        ("opus-mt-en-jap", [("en", "ja")]),
        ("opus-mt-tc-big-cat_oci_spa-en", [("ca", "en"), ("oc", "en"), ("es", "en")]),
        ("opus-mt-tc-big-en-pt_br", [("en", "pt-BR")]),
        ("opus-mt-en-srp_Latn", [("en", "sr-Latn")]),
    ],
)
def test_pairs_are_read_from_the_model_name(name: str, pairs: list[tuple[str, str]]) -> None:
    assert list(find_pairs(HERE, name, NONE, (), {})[0]) == pairs


def test_a_language_group_is_replaced_by_the_languages_of_the_card() -> None:
    card = ("it", "es", "en", "roa")
    assert find_pairs(HERE, "opus-mt-ROMANCE-en", NONE, card, {})[0] == (("it", "en"), ("es", "en"))
    tags = {"it": ">>ita<<", "es": ">>spa<<"}
    assert find_pairs(HERE, "opus-mt-en-ROMANCE", NONE, card, tags) == (
        (("en", "it"), ("en", "es")),
        tags,
    )


def test_between_two_groups_every_language_is_on_both_sides() -> None:
    tags = {"da": ">>da<<", "sv": ">>sv<<", "nb": ">>nb<<"}
    card = ("da", "sv", "nb", "scandinavia")
    pairs, used = find_pairs(HERE, "opus-mt-SCANDINAVIA-SCANDINAVIA", NONE, card, tags)
    assert set(pairs) == {
        (source, target) for source in tags for target in tags if source != target
    }
    assert used == tags


def test_files_override_the_name_and_arguments_override_both() -> None:
    stated = ("eng", "fra")
    assert find_pairs(HERE, "opus-mt-en-de", stated, (), {})[0] == (("en", "fr"),)
    assert find_pairs(HERE, "opus-mt-en-de", stated, (), {}, ["it"], ["nl"])[0] == (("it", "nl"),)


@pytest.mark.parametrize(
    ("name", "sources", "targets", "tags", "reason"),
    [
        ("strange", [], [], {}, "--source"),
        ("opus-mt-mul-en", [], [], {}, "--source"),
        ("opus-mt-en-mul", [], [], {}, "--target"),
        ("opus-mt-en-de", [], ["fr"], {"de": ">>deu<<"}, "no tag for the target fr"),
        ("opus-mt-en-de", [], ["fr", "it"], {}, "no >>tags<<"),
        ("opus-mt-en-de", ["de"], [], {}, "same"),
        ("opus-mt-en-de", ["e!"], [], {}, "not a language code"),
    ],
)
def test_unknown_languages_are_refused(
    name: str, sources: list[str], targets: list[str], tags: dict[str, str], reason: str
) -> None:
    with pytest.raises(ImportRefused, match=reason):
        find_pairs(HERE, name, NONE, (), tags, sources, targets)


@pytest.mark.parametrize(
    "name", ["model.onnx", "model.npz", "model.safetensors", "opus-2020-02-26.zip", "notes.txt"]
)
def test_other_formats_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    file = tmp_path / "model" / name
    file.write_bytes(b"PK")
    for path in (file.parent, file):
        with pytest.raises(
            ImportRefused, match=r"none of the files .*config.json .* unpacked; "
        ) as refusal:
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
    with pytest.raises(
        ImportRefused, match=r"pytorch_model\.bin is a pointer of Git LFS .* `git lfs pull`"
    ):
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
    monkeypatch.setattr(
        import_cli, "free_memory", lambda: 11_000_000 if error is None else 13_000_000
    )
    monkeypatch.setattr(import_cli, "import_model", Mock(side_effect=error))
    with pytest.raises(
        AttentiveError, match=r"needs about 12 MB of memory, and 1[13] MB are free\.$"
    ):
        import_cli.import_from(folder, tmp_path / "weights", ImportOptions())


NUMBERS = np.arange(6, dtype=np.float32)


class View:
    """Pickled as a tensor with any storage, offset, shape and strides."""

    def __init__(self, *view: Any) -> None:
        self.view = view

    def __reduce__(self) -> tuple[Any, ...]:
        return torch._utils._rebuild_tensor_v2, (*self.view, False, OrderedDict())


class Storage:
    def __init__(self, count: int = 6) -> None:
        self.count = count


class Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        return (
            ("storage", torch.FloatStorage, "0", "cpu", value.count)
            if isinstance(value, Storage)
            else None
        )


def checkpoint(file: Path, *view: Any) -> Path:
    pickled = io.BytesIO()
    Pickler(pickled, protocol=2).dump({"a": View(*view)})
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", pickled.getvalue())
        archive.writestr("x/data/0", NUMBERS.tobytes())
    return file


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(0, (2, 3), (3, 1)), (1, (3, 1), (1, 1)), (5, (), ()), (0, (2, 3), (1, 2))],
)
def test_views_of_a_storage_are_those_of_torch(
    offset: int, shape: Any, strides: Any, tmp_path: Path
) -> None:
    array = read_checkpoint(checkpoint(tmp_path / "file", Storage(), offset, shape, strides))["a"]
    assert np.array_equal(array, torch.from_numpy(NUMBERS).as_strided(shape, strides, offset))


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        *(
            (0, (7,), (1,)),
            (1, (6,), (1,)),
            (0, (2,), (6,)),
            (-1, (2,), (1,)),
            (5, (2,), (-1,)),
            (10**30, (1,), (1,)),
        ),
        *(
            (0, (-1,), (1,)),
            (0, (2, 3), (1,)),
            (0, (4, 4), (0, 0)),
            (0.0, (2,), (1,)),
            (0, "ab", (1, 1)),
            (0, (1,), (10**30,)),
        ),
    ],
)
def test_a_view_beyond_its_storage_is_refused(
    offset: Any, shape: Any, strides: Any, tmp_path: Path
) -> None:
    with pytest.raises(ImportRefused):
        read_checkpoint(checkpoint(tmp_path / "file", Storage(), offset, shape, strides))


@pytest.mark.parametrize(
    "storage", [Storage(7), Storage(10**12), Storage(-1), "0", 5, View(Storage(), 0, (2,), (0,))]
)
def test_other_storages_are_refused(storage: Any, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused):
        read_checkpoint(checkpoint(tmp_path / "file", storage, 0, (6,), (1,)))


WEIGHT = np.array([[10, -20], [30, 40]], dtype=np.int8)
SCALE = np.array([10.0, 20.0], dtype=np.float32)


def binary(path: Path, arrays: dict[str, np.ndarray], aliases: dict[str, str]) -> Path:
    def string(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    parts = [struct.pack("<I", 6), string(SPECIFICATION), struct.pack("<II", 1, len(arrays))]
    for name, array in arrays.items():
        kind = {"float32": 0, "int8": 1}[array.dtype.name]
        parts += [string(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        parts += [struct.pack("<BI", kind, array.nbytes), array.tobytes()]
    parts += [
        struct.pack("<I", len(aliases)),
        *[string(name) for pair in aliases.items() for name in pair],
    ]
    file = path / "model.bin"
    file.write_bytes(b"".join(parts))
    return file


@pytest.mark.parametrize(
    ("scales", "aliases"),
    [
        ({"a_scale": SCALE}, {"b": "a"}),
        ({"a_scale": SCALE}, {"b": "a", "b_scale": "a_scale"}),
        ({"b_scale": SCALE}, {"b": "a"}),
        ({"other_scale": SCALE}, {"a_scale": "other_scale", "b": "a"}),
        ({"other_scale": SCALE}, {"b_scale": "other_scale", "b": "a"}),
    ],
)
def test_the_scale_of_an_array_may_have_the_name_of_its_alias_or_be_one(scales, aliases, tmp_path):
    arrays = read_model_binary(binary(tmp_path, {"a": WEIGHT, **scales}, aliases))
    for name in ("a", "b"):
        np.testing.assert_allclose(arrays[name], [[1.0, -2.0], [1.5, 2.0]])


def test_an_array_without_a_scale_is_refused(tmp_path):
    with pytest.raises(ImportRefused, match="a has no valid scale"):
        read_model_binary(binary(tmp_path, {"a": WEIGHT, "other_scale": SCALE}, {"b": "a"}))
