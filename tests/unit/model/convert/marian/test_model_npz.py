"""Tests of the import from the layout of Marian.

Imported weights promise equal bits; CTranslate2 promises equal tokens, because its sums have
another order.
"""

from __future__ import annotations

import dataclasses
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from model.checkpoint import load_model, save_model
from model.convert.importer import ImportOptions, import_model
from model.convert.marian.reader import marian_sinusoids, parse_vocab_yml
from model.model_folder import Generation, ImportRefused, ModelFolder, read_folder
from model.transformer import Transformer
from tests.support.models.folders import ctranslate2_pieces, target_pieces
from tests.support.models.marian_models import (
    made_up_text,
    random_marian,
    random_sources,
    train_sentencepiece,
    write_marian,
)

pytestmark = pytest.mark.numeric

OPTIONS = ImportOptions(name="imported", sources=["en"], targets=["de"])
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre", "activation": "swish"},
    "two vocabularies": {"vocabularies": 2},
    "no shared embeddings": {"tied_embeddings": False},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.slow
def test_imported_weights_equal_the_original(variant: str, tmp_path: Path) -> None:
    original = random_marian(tmp_path / "marian", seed=3, **VARIANTS[variant])
    imported = load_model(import_model(tmp_path / "marian", tmp_path / "weights", OPTIONS))
    assert imported.config == original.config.replace(
        max_length=imported.config.max_length,
        pad_id=imported.config.pad_id,
        positions="learned",
        norm_epsilon=1e-6,
    )
    assert np.array_equal(imported.positions.weight.detach(), marian_sinusoids(512, 32))
    for name, tensor in original.state_dict().items():
        assert torch.equal(imported.state_dict()[name], tensor), name


def with_their_positions(folder: ModelFolder) -> ModelFolder:
    """Writes a model with the sinusoids and the epsilon of CTranslate2, which are not Marian's."""
    model = load_model(folder)
    config = model.config.replace(positions="sinusoidal_half", norm_epsilon=1e-5)
    theirs = Transformer(config)
    theirs.load_state_dict(
        {n: t for n, t in model.state_dict().items() if n != "positions.weight"}, strict=False
    )
    save_model(dataclasses.replace(folder, model=config), theirs)
    return read_folder(folder.path)


# CTranslate2's converter expects a name for a separate output projection that Marian does not use.
@pytest.mark.slow
@pytest.mark.parametrize(
    "variant", [name for name in VARIANTS if "tied_embeddings" not in VARIANTS[name]]
)
def test_ctranslate2_converts_the_same_files_to_the_same_translations(
    variant: str, tmp_path: Path
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    two = VARIANTS[variant].get("vocabularies") == 2
    random_marian(tmp_path / "marian", seed=3, **VARIANTS[variant], tied_output=two)
    folder = with_their_positions(import_model(tmp_path / "marian", tmp_path / "weights", OPTIONS))
    paths = [
        str(tmp_path / "marian" / name)
        for name in (["source.yml", "target.yml"] if two else ["vocab.yml"])
    ]
    ctranslate2.converters.MarianConverter(str(tmp_path / "marian" / "model.npz"), paths).convert(
        str(tmp_path / "theirs")
    )
    translator = ctranslate2.Translator(str(tmp_path / "theirs"), intra_threads=1)
    config = folder.model
    end = folder.load_tokenizer().encode("").ids[-1]
    sources = random_sources(20, config.source_vocab_size or config.vocab_size, end, seed=1)
    theirs = translator.translate_batch(
        [ctranslate2_pieces(folder, source) for source in sources],
        beam_size=4,
        max_decoding_length=20,
        min_decoding_length=0,
    )
    options = {"beam_size": 4, "max_length": 20, "normalization": "average", "length_penalty": 1.0}
    ours = target_pieces(folder, sources, early_stopping=True, **options)
    assert ours == [result.hypotheses[0] for result in theirs]


def test_learned_positions_are_imported(tmp_path: Path) -> None:
    random_marian(tmp_path / "marian")
    table = np.random.default_rng(0).normal(size=(40, 32)).astype(np.float32)
    change(tmp_path / "marian" / "model.npz", Wpos=table)
    folder = import_model(tmp_path / "marian", tmp_path / "weights", OPTIONS)
    assert (folder.model.positions, folder.model.max_length) == ("learned", 40)
    assert torch.equal(load_model(folder).positions.weight, torch.from_numpy(table))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_recurrence_is_imported_with_the_positions_of_marian(norm: str, tmp_path: Path) -> None:
    recurrent = {"recurrence": "ssru", "norm_epsilon": 1e-6, "norm": norm}
    original = random_marian(tmp_path / "marian", **recurrent)
    imported = load_model(import_model(tmp_path / "marian", tmp_path / "weights", OPTIONS))
    assert (imported.config.recurrence, imported.config.norm, imported.config.norm_epsilon) == (
        "ssru",
        norm,
        1e-6,
    )
    for name, tensor in original.state_dict().items():
        assert torch.equal(imported.state_dict()[name], tensor), name
    assert np.array_equal(imported.positions.weight.detach(), marian_sinusoids(512, 32))


def test_a_vocabulary_may_be_a_sentencepiece_model(tmp_path: Path) -> None:
    folder = tmp_path / "marian"
    original = random_marian(folder)
    for file in folder.glob("*.spm"):
        file.unlink()
    pieces = train_sentencepiece(
        folder / "vocab.spm", 3, 150, eos_id=0, unk_id=1, bos_id=-1, pad_id=-1
    )
    small = Transformer(original.config.replace(vocab_size=len(pieces) + 2)).eval()
    write_marian(folder / "model.npz", small)
    (folder / "decoder.yml").write_text(
        yaml.safe_dump({"models": ["model.npz"], "vocabs": ["vocab.spm"] * 2})
    )
    imported = import_model(folder, tmp_path / "weights", OPTIONS)
    assert imported.tokenizer.target == "source.spm"
    assert imported.load_tokenizer().encode_ids(made_up_text(3, 1)[0])[-1] == 0
    assert torch.equal(load_model(imported).embedding.weight, small.embedding.weight)


@pytest.mark.parametrize("separate_output", [False, True])
def test_an_embedding_shared_by_source_and_target(separate_output: bool, tmp_path: Path) -> None:
    """Covers tied-embeddings-src with and without tied-embeddings."""
    original = random_marian(tmp_path / "marian")
    matrix = original.embedding.weight.detach()
    output = torch.randn_like(matrix)
    file = tmp_path / "marian" / "model.npz"
    ties = {
        "tied-embeddings-all": False,
        "tied-embeddings-src": True,
        "tied-embeddings": not separate_output,
    }
    write_marian(file, original, **ties)
    if separate_output:
        change(file, decoder_ff_logit_out_W=np.ascontiguousarray(output.numpy().T))
    imported = load_model(import_model(tmp_path / "marian", tmp_path / "weights", OPTIONS))
    assert torch.equal(imported.embedding.weight, matrix)
    assert imported.config.tied_embeddings is not separate_output
    if separate_output:
        assert torch.equal(imported.source_embedding.weight, matrix)
        assert torch.equal(imported.projection.weight, output)


def test_vocab_yml_is_parsed() -> None:
    text = (
        '</s>: 0\n<unk>: 1\n",": 2\n"\\"": 3\n\'a\'\'b\': 4\n▁:: 5\n? "long\\tkey"\n: 6\n"\\x41": '
        '7\n"\\u2581x": 8\n#: 9\n'
    )
    assert parse_vocab_yml(text) == {
        "</s>": 0,
        "<unk>": 1,
        ",": 2,
        '"': 3,
        "a'b": 4,
        "▁:": 5,
        "long\tkey": 6,
        "A": 7,
        "▁x": 8,
        "#": 9,
    }
    with pytest.raises(ValueError, match="line 2"):
        parse_vocab_yml("a: 0\nnonsense\n")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"type": "s2s", "transformer-preprocess": "dn"},
            "imported: it is a model of Marian's type 's2s', and only its.*run.$",
        ),
        ({"transformer-decoder-autoreg": "average-attention"}, "autoreg"),
        ({"transformer-ffn-activation": "gelu"}, "activation"),
        ({"transformer-preprocess": "dn"}, "residual layout"),
        ({"right-left": True}, "right-left"),
        ({"dim-emb": "wide"}, "d_model"),
        ({"enc-depth": 3}, "missing"),
        ({"enc-depth": 1}, "not a tensor of this architecture"),
        ({"transformer-heads": 5}, "divisible"),
        ({"dim-vocabs": [7, 7]}, "vocabulary"),
    ],
)
def test_unsupported_options_are_refused_with_the_reason(
    options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    transformer = random_marian(tmp_path / "marian")
    write_marian(tmp_path / "marian" / "model.npz", transformer, **options)
    refused(tmp_path, reason)


@pytest.mark.parametrize(
    "name", ["../model.npz", "/etc/passwd", "a/b.npz", "..", "", 7, "a\\b", None]
)
def test_names_with_a_path_are_refused(name: object, tmp_path: Path) -> None:
    random_marian(tmp_path / "marian")
    for key, names in (("models", [name]), ("vocabs", ["vocab.yml", name])):
        decoder = {"models": ["model.npz"], "vocabs": ["vocab.yml", "vocab.yml"], key: names}
        (tmp_path / "marian" / "decoder.yml").write_text(yaml.safe_dump(decoder))
        refused(tmp_path, "plain file name")


def test_truncated_archives_are_refused(tmp_path: Path) -> None:
    random_marian(tmp_path / "marian")
    file = tmp_path / "marian" / "model.npz"
    whole = file.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 30):
        file.write_bytes(whole[:length])
        refused(tmp_path, "npz|truncated")


def test_invalid_arrays_are_refused(tmp_path: Path) -> None:
    random_marian(tmp_path / "marian")
    file = tmp_path / "marian" / "model.npz"
    whole = file.read_bytes()
    wrong = {
        "shape": np.zeros((3, 3), np.float32),
        "int32": np.zeros((32, 32), np.int32),
        "objects": np.array([[{"a": 1}]], dtype=object),
        "finite": np.full((32, 32), np.nan, np.float32),
    }
    for reason, array in wrong.items():
        change(file, encoder_l1_self_Wq=array)
        refused(tmp_path, f"(encoder_l1_self_Wq|encoder.0.self_attention.query.weight).*{reason}")
        file.write_bytes(whole)


def test_an_array_that_claims_10_gigabytes_is_refused(tmp_path: Path) -> None:
    random_marian(tmp_path / "marian")
    for shape in ((50_000, 50_000), (32, 32)):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f4", "fortran_order": False, "shape": shape}
        )
        change(tmp_path / "marian" / "model.npz", encoder_l1_self_Wq=header.getvalue() + b"\0" * 64)
        refused(tmp_path, "encoder_l1_self_Wq is broken or truncated")


def test_an_archive_with_a_high_compression_ratio_is_refused(tmp_path: Path) -> None:
    random_marian(tmp_path / "marian")
    with zipfile.ZipFile(tmp_path / "marian" / "model.npz", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("padding.npy", b"\0" * 50_000_000)
    refused(tmp_path, "more than its size")


def change(file: Path, **members: object) -> None:
    """Replaces members of the archive by an array or by bytes."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    for name, value in members.items():
        if isinstance(value, bytes):
            contents[f"{name}.npy"] = value
        else:
            buffer = io.BytesIO()
            np.save(buffer, np.asarray(value), allow_pickle=True)
            contents[f"{name}.npy"] = buffer.getvalue()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def refused(path: Path, reason: str) -> None:
    """Checks that the import is refused with the reason in one line and writes no folder."""
    with pytest.raises(ImportRefused, match=f"(?s).*({reason})") as refusal:
        import_model(path / "marian", path / "weights", OPTIONS)
    assert "\n" not in str(refusal.value)
    assert not (path / "weights").exists()


@pytest.mark.parametrize(
    ("settings", "stated"),
    [
        ({}, {"beam_size": 12, "length_penalty": 0.0}),
        ({"beam-size": 4, "normalize": 0.6}, {"beam_size": 4, "length_penalty": 0.6}),
        (
            {"beam-size": 1, "normalize": True, "allow-unk": True},
            {"beam_size": 1, "length_penalty": 1.0, "forbidden": ()},
        ),
    ],
)
def test_decoder_yml_states_how_a_model_decodes(
    settings: dict[str, Any], stated: dict[str, Any], tmp_path: Path
) -> None:
    random_marian(tmp_path / "marian")
    file = tmp_path / "marian" / "decoder.yml"
    described = {**yaml.safe_load(file.read_text()), **settings}
    if not settings:
        del described["beam-size"]
    file.write_text(yaml.safe_dump(described))
    generation = import_model(tmp_path / "marian", tmp_path / "weights", OPTIONS).generation
    common = {"normalization": "average", "shrinking_beam": True, "forbidden": (1,)}
    assert generation == Generation(**(common | stated))


@pytest.mark.parametrize(
    "settings", [{"word-penalty": 0.5}, {"output-sampling": ["topk", 5]}, {"max-length-factor": 2}]
)
def test_settings_of_decoder_yml_that_are_not_applied_are_named(
    settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    random_marian(tmp_path / "marian")
    file = tmp_path / "marian" / "decoder.yml"
    harmless = {"word-penalty": 0, "mini-batch": 64, "relative-paths": True, "quiet": True}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | harmless | settings))
    import_model(tmp_path / "marian", tmp_path / "weights", OPTIONS)
    assert f"without these settings of its decoder.yml: {next(iter(settings))} " in caplog.text


@pytest.mark.parametrize(
    "settings", [{"beam-size": 100}, {"beam-size": "many"}, {"normalize": [1]}, {"normalize": -1}]
)
def test_impossible_settings_of_decoder_yml_are_refused(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    random_marian(tmp_path / "marian")
    file = tmp_path / "marian" / "decoder.yml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | settings))
    with pytest.raises(ImportRefused):
        import_model(tmp_path / "marian", tmp_path / "weights", OPTIONS)
