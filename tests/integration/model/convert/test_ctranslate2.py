"""Tests that imported CTranslate2 folders and Argos packages give the targets of CTranslate2
itself."""

from __future__ import annotations

import json
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from model.checkpoint import load_model
from model.convert.argos import export_argos
from model.convert.ctranslate2.export import export_ctranslate2
from model.convert.importer import ImportOptions, import_model
from model.convert.vocabulary import folder_pieces
from model.model_folder import FolderError, ImportRefused, ModelFolder
from server.__main__ import main
from tests.support.models.folders import hypotheses, target_pieces
from tests.support.models.marian_models import made_up_text, random_huggingface, random_marian
from tests.support.models.multilingual_models import random_multilingual
from tests.unit.model.convert.test_export import random_folder

ctranslate2 = pytest.importorskip("ctranslate2")
CASES, LIMIT = 100, 16
SHAPES: dict[str, dict[str, Any]] = {
    "post-norm, half-and-half, bias, swish": {
        "positions": "sinusoidal_half",
        "output_bias": True,
        "activation": "swish",
    },
    "pre-norm, learned, gelu, unscaled": {
        "norm": "pre",
        "positions": "learned",
        "activation": "gelu",
        "scale_embeddings": False,
    },
    "pre-norm, normalised embeddings, positions of each side": {
        "norm": "pre",
        "embedding_norm": True,
        "positions": "learned_per_side",
    },
    "untied": {"tied_embeddings": False},
}
PRECISIONS = ("float16", "bfloat16", "int16", "int8", "int8_float16")
TIE = 1e-3
"""Largest difference of the scores of two targets that count as equally good, in nats."""
TIED = "pre-norm, learned, gelu, unscaled"
OPTIONS = ImportOptions(name="imported", sources=["en"], targets=["de"])


def ours(folder: ModelFolder, texts: list[str], beam: int) -> list[list[str]]:
    """Returns the pieces of the translation of each text into German."""
    tokenizer = folder.load_tokenizer()
    return target_pieces(
        folder,
        [tokenizer.encode_ids(text, "de", "en") for text in texts],
        beam_size=beam,
        max_length=LIMIT,
        normalization="average",
        length_penalty=0.2,
        early_stopping=True,
        first_token=tokenizer.first_token("de"),
    )


def theirs(
    model: Path, pieces: list[list[str]], beam: int, prefix: str | None = None
) -> list[list[str]]:
    """Returns the translations of CTranslate2, which computes in float32: int8 weights are the only
    rounding. They are without the prefix, which CTranslate2 counts in the maximum length."""
    translator = ctranslate2.Translator(str(model), intra_threads=1, compute_type="float32")
    hidden = 0 if prefix is None else 1
    results = translator.translate_batch(
        pieces,
        target_prefix=None if prefix is None else [[prefix]] * len(pieces),
        beam_size=beam,
        length_penalty=0.2,
        max_decoding_length=LIMIT + hidden,
        min_decoding_length=0,
    )
    return [result.hypotheses[0][hidden:] for result in results]


def known(model: Path, pieces: list[list[str]]) -> list[list[str]]:
    """Replaces the pieces that are not in the vocabulary, as a tokenizer of transformers does."""
    vocabulary = set(json.loads((model / "shared_vocabulary.json").read_text()))
    return [[piece if piece in vocabulary else "<unk>" for piece in listed] for listed in pieces]


def encoded(file: Path, texts: list[str]) -> list[list[str]]:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [processor.encode(text, out_type=str) for text in texts]


def exported(path: Path, quantization: str | None = None, **shape: Any) -> Path:
    folder = random_folder(path / "own", **shape)
    export_ctranslate2(folder, path / "exported", quantization=quantization)
    return path / "exported"


def exported_package(own: ModelFolder, path: Path) -> Path:
    """Returns the unpacked folder of an Argos package into German."""
    export_argos(own, path / "a.argosmodel", target="de")
    with zipfile.ZipFile(path / "a.argosmodel") as archive:
        archive.extractall(path / "unpacked")
    return path / "unpacked" / "translate-en_de"


def change(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(
    ("shape", "quantization"),
    [*((shape, None) for shape in SHAPES), *((TIED, precision) for precision in PRECISIONS)],
)
def test_targets_are_equal(shape: str, quantization: str | None, beam: int, tmp_path: Path) -> None:
    model = exported(tmp_path, quantization, **SHAPES[shape])
    folder = import_model(model, tmp_path / "weights", OPTIONS)
    texts = made_up_text(seed=8, lines=CASES)
    tagged = [[">>de<<", *pieces] for pieces in encoded(model / "tokenizer.model", texts)]
    expected = theirs(model, tagged, beam)
    assert ours(folder, texts, beam) == expected
    assert len({tuple(target) for target in expected}) > CASES // 4


def test_float32_weights_come_back_unchanged(tmp_path: Path) -> None:
    for shape in SHAPES.values():
        own = random_folder(tmp_path / "own", **shape)
        export_ctranslate2(own, tmp_path / "exported")
        folder = import_model(
            tmp_path / "exported", tmp_path / "weights", ImportOptions(name="a", sources=["en"])
        )
        before, after = load_model(own).state_dict(), load_model(folder).state_dict()
        assert set(before) == set(after)
        assert all((before[name] == after[name]).all() for name in before)
        assert (folder.pairs, folder.tags) == (own.pairs, own.tags)
        for path in ("own", "exported", "weights"):
            shutil.rmtree(tmp_path / path)


@pytest.mark.parametrize("beam", [1, 4])
def test_the_folder_of_their_own_converter_gives_the_same_targets(
    beam: int, tmp_path: Path
) -> None:
    random_huggingface(tmp_path / "opus-mt-en-de", seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers recommends a package that is not needed here
        ctranslate2.converters.TransformersConverter(
            str(tmp_path / "opus-mt-en-de"), copy_files=["source.spm", "target.spm"]
        ).convert(str(tmp_path / "theirs"))
    assert_equal_targets(tmp_path, beam, ["</s>"])


@pytest.mark.parametrize("quantization", [None, *PRECISIONS])
def test_folders_of_their_converter_of_opus_mt(quantization: str | None, tmp_path: Path) -> None:
    """Their config.json names a first token <s>, which no vocabulary of OPUS-MT has: the decoder
    starts from zero."""
    random_marian(tmp_path / "npz", seed=3)
    converter = ctranslate2.converters.OpusMTConverter(str(tmp_path / "npz"))
    converter.convert(str(tmp_path / "theirs"), quantization=quantization)
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(tmp_path / "npz" / name, tmp_path / "theirs" / name)
    assert_equal_targets(tmp_path, 4, [])  # this folder asks CTranslate2 to add the end of sentence


def assert_equal_targets(path: Path, beam: int, end: list[str]) -> None:
    """Checks the import of the folder `theirs` in `path`."""
    folder = import_model(path / "theirs", path / "weights", OPTIONS)
    texts = made_up_text(seed=6, lines=CASES)
    pieces = [[*listed, *end] for listed in encoded(path / "theirs" / "source.spm", texts)]
    assert_equal_up_to_ties(
        folder, texts, beam, theirs(path / "theirs", known(path / "theirs", pieces), beam)
    )


def assert_equal_up_to_ties(
    folder: ModelFolder, texts: list[str], beam: int, expected: list[list[str]]
) -> None:
    """Checks that our targets are the expected ones, or have their score within TIE: sums in
    another order choose another of two equally good targets."""
    found = ours(folder, texts, beam)
    tokenizer, pieces = folder.load_tokenizer(), folder_pieces(folder)[1]
    for text, mine, other in zip(texts, found, expected, strict=True):
        if mine != other:
            source = tokenizer.encode_ids(text, "de", "en")
            scores = [
                sum(best.token_scores[: len(target) + (len(target) < LIMIT)])
                / max(1, len(target)) ** 0.2
                for target in (mine, other)
                for [best] in hypotheses(
                    folder, [source], target=tuple(map(pieces.index, target)), max_length=LIMIT
                )
            ]
            assert abs(scores[0] - scores[1]) <= TIE, (text, mine, other, scores)


def test_an_unknown_quantization_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = random_folder(tmp_path / "own", norm="pre")
    flags = ["--to", "ctranslate2", "--quantization", "int3"]
    assert main(["export", *flags, str(own.path), str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.startswith("attentive: int3 is not a valid quantization type. ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("beam", [1, 4])
def test_argos_packages_go_out_and_come_in(
    beam: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = random_folder(tmp_path / "own", norm="pre")
    package = tmp_path / "en_de.argosmodel"
    assert main(["export", "--to", "argos", "--target", "de", str(own.path), str(package)]) == 0
    assert main(["import", str(package), "--weights", str(tmp_path / "weights")]) == 0
    assert "en-de" in capsys.readouterr().out
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path / "unpacked")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    texts = made_up_text(seed=7, lines=CASES)
    # As Argos does: the pieces of the sentence, and nothing else.
    expected = theirs(unpacked / "model", encoded(unpacked / "sentencepiece.model", texts), beam)
    assert ours(own, texts, beam) == expected
    folder = import_model(unpacked, tmp_path / "weights", ImportOptions(name="unpacked"))
    assert (folder.pairs, folder.tags, folder.tokenizer.source_start) == ((("en", "de"),), {}, True)
    assert ours(folder, texts, beam) == expected


@pytest.mark.parametrize("beam", [1, 4])
def test_a_model_of_many_languages_gives_the_targets_after_its_prefix(
    beam: int, tmp_path: Path
) -> None:
    random_multilingual(tmp_path / "nllb", "nllb", seed=3)
    export_ctranslate2(import_model(tmp_path / "nllb", tmp_path / "weights"), tmp_path / "exported")
    folder = import_model(tmp_path / "exported", tmp_path / "weights", ImportOptions(name="back"))
    assert (folder.first_tokens["de"], folder.source_tags["en"]) == ("deu_Latn", "eng_Latn")
    texts = made_up_text(seed=5, lines=CASES)
    pieces = [
        ["eng_Latn", *listed] for listed in encoded(tmp_path / "exported" / "source.spm", texts)
    ]
    prefixed = theirs(
        tmp_path / "exported", known(tmp_path / "exported", pieces), beam, prefix="deu_Latn"
    )
    for mine, other in zip(ours(folder, texts, beam), prefixed, strict=True):
        # their beam search never ends directly after a prefix
        assert mine == other or (beam > 1 and not mine)


@pytest.mark.parametrize(
    ("theirs", "code"), [("zt", "zh-Hant"), ("pb", "pt-BR"), ("zh", "zh"), ("pt", "pt")]
)
def test_codes_of_argos_become_ours_and_back(theirs: str, code: str, tmp_path: Path) -> None:
    package = exported_package(random_folder(tmp_path / "own", norm="pre"), tmp_path)
    change(package / "metadata.json", to_code=theirs)
    folder = import_model(package, tmp_path / "weights")
    assert list(folder.pairs) == [("en", code)]
    export_argos(folder, tmp_path / "b.argosmodel")
    with zipfile.ZipFile(tmp_path / "b.argosmodel") as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith("metadata.json")]
        assert json.loads(archive.read(metadata))["to_code"] == theirs


def test_a_package_with_a_target_prefix(tmp_path: Path) -> None:
    own = random_folder(tmp_path / "own", norm="pre")
    package = exported_package(own, tmp_path)
    change(package / "metadata.json", target_prefix=">>fr<<")
    folder = import_model(package, tmp_path / "weights")
    assert folder.first_tokens == {"de": ">>fr<<"}
    texts = made_up_text(seed=7, lines=CASES)
    pieces = encoded(package / "sentencepiece.model", texts)
    assert ours(folder, texts, 1) == theirs(package / "model", pieces, 1, prefix=">>fr<<")
    change(package / "metadata.json", target_prefix=">>it<<")
    with pytest.raises(ImportRefused, match="begin with '>>it<<'"):
        import_model(package, tmp_path / "weights", ImportOptions(name="other"))


def test_sources_without_an_end_are_encoded_so(tmp_path: Path) -> None:
    """Packages of OpenNMT-py do not end their sources."""
    own = random_folder(tmp_path / "own")
    package = exported_package(own, tmp_path)
    change(
        package / "model" / "config.json",
        add_source_eos=False,
        add_source_bos=False,
        bos_token="<s>",
    )
    folder = import_model(package, tmp_path / "weights")
    texts = made_up_text(seed=7, lines=CASES)
    assert folder.load_tokenizer().encode("abc").ids[-1] != folder.model.eos_id
    assert ours(folder, texts, 4) == theirs(
        package / "model", encoded(package / "sentencepiece.model", texts), 4
    )


def test_packages_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    own = random_folder(tmp_path / "own")
    with pytest.raises(FolderError, match="2 pairs"):
        export_argos(own, tmp_path / "a.argosmodel")
    export_argos(own, tmp_path / "a.argosmodel", target="de")
    with zipfile.ZipFile(tmp_path / "a.argosmodel") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def refused(reason: str, **changed: bytes | None) -> None:
        with zipfile.ZipFile(tmp_path / "model.argosmodel", "w") as archive:
            for name, data in members.items():
                key = name.rpartition("/")[2].replace(".", "_")
                if changed.get(key, data) is not None:
                    archive.writestr(name, changed.get(key, data) or b"")
            if "bpe_model" in changed:
                archive.writestr("translate-en_de/bpe.model", b"codes")
        with pytest.raises(ImportRefused, match=reason) as refusal:
            import_model(tmp_path / "model.argosmodel", tmp_path / "weights")
        assert "\n" not in str(refusal.value)

    binary = members["translate-en_de/model/model.bin"]
    refused("lacks from_code", metadata_json=b"{}")
    refused(
        "the type 'sbd', which translates nothing",
        metadata_json=b'{"type": "sbd", "from_code": "en"}',
    )
    refused("no metadata", metadata_json=None)
    refused(
        "a BPE vocabulary .* use a package of the pair with sentencepiece",
        sentencepiece_model=None,
        bpe_model=b"",
    )
    refused(
        "model[.]argosmodel cannot be imported: .*truncated", model_bin=binary[: len(binary) // 2]
    )
    refused("version 99", model_bin=b"\x63" + binary[1:])
    for other in (binary[:3], b"<!DOCTYPE html>", b"PK\x03\x04" + bytes(100)):
        refused("not a model of CTranslate2, or is truncated", model_bin=other)
    refused(
        "WhisperSpecabc",
        model_bin=binary.replace(b"TransformerSpec", b"WhisperSpecabcd", 1)[: len(binary)],
    )
    refused(
        "not a tensor of this architecture",
        model_bin=binary.replace(b"decoder/scale_alibi", b"decoder/scale_aliby"),
    )
    refused("lists a piece twice", shared_vocabulary_json=json.dumps(["a", "a"]).encode())
    (tmp_path / "model.argosmodel").write_bytes(b"no archive")
    with pytest.raises(ImportRefused, match="not readable as a package"):
        import_model(tmp_path / "model.argosmodel", tmp_path / "weights")
