"""Tests that exported models give the same translations, here and in transformers: equal tokens,
not equal sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from model.checkpoint import save_model
from model.config import ModelConfig
from model.convert.ctranslate2.export import export_ctranslate2
from model.convert.huggingface.export import export_huggingface
from model.convert.importer import ImportOptions, import_model
from model.convert.vocabulary import folder_pieces
from model.model_folder import FolderError, ModelFolder, read_folder
from model.transformer import Transformer
from tests.support.models.folders import new_folder, target_pieces
from tests.support.models.marian_models import (
    OUR_IDS,
    made_up_text,
    random_huggingface,
    random_marian,
    train_sentencepiece,
)

pytestmark = pytest.mark.numeric

HUGGINGFACE: dict[str, dict[str, Any]] = {
    "opus-mt": {},
    "tagged, odd ids": {
        "tags": (">>deu<<", ">>fra<<"),
        "special": {"</s>": 57, "<unk>": 100, "<pad>": 23},
    },
    "untied": {"untied": True, "special": {"</s>": 3, "<unk>": 11, "<pad>": 30}},
}
MARIAN: dict[str, dict[str, Any]] = {"one vocabulary": {}, "two vocabularies": {"vocabularies": 2}}
OWN: dict[str, dict[str, Any]] = {
    "interleaved sinusoids": {},
    "half-and-half, swish": {
        "positions": "sinusoidal_half",
        "activation": "swish",
        "output_bias": True,
    },
    "learned positions, gelu": {
        "positions": "learned",
        "activation": "gelu",
        "scale_embeddings": False,
    },
    "untied, our ids": {"tied_embeddings": False},
}
OPTIONS = ImportOptions(name="again", sources=["en"], targets=["de"])


def random_folder(path: Path, **changes: Any) -> ModelFolder:
    """Returns a folder in the layout that training writes, with random weights."""
    path.mkdir(parents=True)
    pieces = train_sentencepiece(
        path / "tokenizer.model",
        seed=4,
        size=300,
        byte_fallback=False,
        **OUR_IDS,
        user_defined_symbols=[">>de<<", ">>fr<<"],
        pad_piece="<pad>",
    )
    torch.manual_seed(5)
    config = ModelConfig(
        vocab_size=len(pieces) + 4,
        d_model=32,
        d_ff=64,
        encoder_layers=2,
        decoder_layers=2,
        max_length=160,
        **{"heads": 4, **changes},
    )
    transformer = Transformer(config)
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            if "attention" in name and parameter.dim() == 2:
                parameter.mul_(2.5)
            elif parameter.dim() == 1 and "norm.weight" not in name:
                parameter.normal_(std=0.2)
    folder = new_folder(
        path,
        config,
        name="own",
        pairs=(("en", "de"), ("en", "fr")),
        tags={"de": ">>de<<", "fr": ">>fr<<"},
        formality=("de",),
        segment_length=50,
    )
    save_model(folder, transformer)
    return read_folder(path)


def made(variant: str, tmp_path: Path) -> ModelFolder:
    """Returns a folder of one of the variants, an imported one or our own."""
    if variant in OWN:
        return random_folder(tmp_path / "own", **OWN[variant])
    if variant in HUGGINGFACE:
        random_huggingface(tmp_path / "model", seed=8, **HUGGINGFACE[variant])
    else:
        random_marian(tmp_path / "model", seed=8, **MARIAN[variant])
    return import_model(tmp_path / "model", tmp_path / "weights", OPTIONS)


@pytest.mark.parametrize("variant", [*HUGGINGFACE, *OWN, *MARIAN])
def test_an_exported_model_is_imported_as_any_other(variant: str, tmp_path: Path) -> None:
    folder = made(variant, tmp_path)
    export_huggingface(folder, tmp_path / "exported")
    again = import_model(tmp_path / "exported", tmp_path / "again", OPTIONS)
    sources = [
        folder.load_tokenizer().encode_ids(text, "de") for text in made_up_text(seed=6, lines=16)
    ]
    assert [
        again.load_tokenizer().encode_ids(text, "de") for text in made_up_text(seed=6, lines=16)
    ] == sources
    assert target_pieces(again, sources, max_length=20) == target_pieces(
        folder, sources, max_length=20
    )
    if variant in HUGGINGFACE:
        published = load_file(tmp_path / "model" / "model.safetensors")
        exported = load_file(tmp_path / "exported" / "model.safetensors")
        # the bias of padding is not used
        for name in set(published) & set(exported) - {"final_logits_bias"}:
            assert torch.equal(published[name], exported[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("variant", [*OWN, *MARIAN])
def test_transformers_gives_the_same_translations_of_an_exported_model(
    variant: str, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    folder = made(variant, tmp_path)
    export_huggingface(folder, tmp_path / "exported")
    model = transformers.MarianMTModel.from_pretrained(tmp_path / "exported").eval()
    tokenizer = load_marian_tokenizer(tmp_path / "exported")
    texts = made_up_text(seed=6, lines=16)
    target = next(iter(folder.tags), None)
    tag = "" if target is None else folder.tags[target] + " "
    batch = tokenizer([tag + text for text in texts], return_tensors="pt", padding=True)
    encoded = [list(folder.load_tokenizer().encode(text, target).ids) for text in texts]
    assert encoded == [
        row[: len(ids)] for row, ids in zip(batch["input_ids"].tolist(), encoded, strict=True)
    ]
    generated = model.generate(
        **batch, num_beams=4, max_new_tokens=20, length_penalty=0.6, do_sample=False
    )
    options = {"beam_size": 4, "max_length": 20, "normalization": "average", "length_penalty": 0.6}
    pieces = folder_pieces(folder)[1]
    stops = (folder.model.eos_id, model.config.pad_token_id)
    theirs = [[pieces[i] for i in row[1:] if i not in stops] for row in generated.tolist()]
    assert target_pieces(folder, encoded, **options) == theirs


@pytest.mark.parametrize(
    ("export", "changes", "reason"),
    [
        (export_huggingface, {"norm": "pre"}, "pre"),
        (export_huggingface, {"norm_epsilon": 1e-3}, "eps"),
        (export_huggingface, {"recurrence": "ssru"}, "recurrence"),
        (export_ctranslate2, {"recurrence": "ssru"}, "recurrence"),
    ],
)
def test_models_that_a_layout_cannot_represent_are_refused(
    export: Callable[[ModelFolder, Path], Any], changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    folder = random_folder(tmp_path / "own", **changes)
    with pytest.raises(FolderError, match=reason):
        export(folder, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_export_overwrites_no_folder(tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "own")
    for export in (export_ctranslate2, export_huggingface):
        with pytest.raises(FolderError, match="exists already"):
            export(folder, tmp_path)


def load_marian_tokenizer(path: Path) -> Any:
    import warnings

    from transformers import MarianTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that is not needed here
        return MarianTokenizer.from_pretrained(path)
