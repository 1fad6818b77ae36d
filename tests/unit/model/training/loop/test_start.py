"""Initial weights are copied from a finished model, also into another vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import sentencepiece
import torch

from model.checkpoint import save_model
from model.config import PRESETS
from model.model_folder import ModelFolder, TokenizerFiles
from model.training.loop.start import start_from
from model.training.recipe import RecipeError
from model.transformer import Transformer
from tests.support.tiny_training import small_vocabulary

Finished = tuple[Path, Transformer, sentencepiece.SentencePieceProcessor]
_SHAPE = {"d_model": 16, "heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
_OLD = [f"the {a} {b} sees a {c}" for a in ("big", "small") for b in ("cat", "dog", "bird") for c in ("house", "tree")]
_NEW = [*_OLD, "el gato grande mira la casa", "un perro pequeno mira el arbol", "la casa grande", "el arbol pequeno"]


def _vocabulary(folder: Path, text: Sequence[str], tags: Sequence[str]) -> sentencepiece.SentencePieceProcessor:
    folder.mkdir()
    return small_vocabulary(folder / "tokenizer.model", text, control_symbols=list(tags))


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    """Returns a model folder, its model and its vocabulary."""
    pieces = _vocabulary(tmp_path / "old", _OLD, [">>en<<", ">>de<<"])
    model = Transformer(PRESETS["small"](len(pieces), **_SHAPE))
    folder = ModelFolder(
        path=tmp_path / "old", name="old", model=model.config, pairs=(("en", "de"),), tags={"en": ">>en<<", "de": ">>de<<"},
        license="CC0-1.0", origin="test", tokenizer=TokenizerFiles(),
    )  # fmt: skip
    save_model(folder, model)
    return tmp_path / "old", model, pieces


def test_all_weights_are_copied_for_the_same_vocabulary(
    finished: Finished,
) -> None:
    folder, old, pieces = finished
    new = Transformer(PRESETS["small"](len(pieces), **_SHAPE))
    start_from(folder, new, pieces)
    for name, tensor in new.state_dict().items():
        assert torch.equal(tensor, old.state_dict()[name]), name


def test_fresh_parameters_are_not_copied(
    finished: Finished,
) -> None:
    folder, old, pieces = finished
    new = Transformer(PRESETS["small"](len(pieces), **_SHAPE))
    drawn = {name: tensor.clone() for name, tensor in new.state_dict().items()}
    start_from(folder, new, pieces, ("encoder.0.self_attention.",))
    for name, tensor in new.state_dict().items():
        fresh = name.startswith("encoder.0.self_attention.")
        assert torch.equal(tensor, (drawn if fresh else old.state_dict())[name]), name


def test_embeddings_are_copied_by_piece_for_another_vocabulary(tmp_path: Path, finished: Finished) -> None:
    folder, old, before = finished
    pieces = _vocabulary(tmp_path / "new", _NEW, [">>en<<", ">>de<<", ">>es<<"])
    new = Transformer(PRESETS["small"](len(pieces), **_SHAPE))
    start_from(folder, new, pieces)
    before_rows, rows = old.state_dict()["embedding.weight"], new.state_dict()["embedding.weight"]
    shared = 0
    for i in range(len(pieces)):
        same = before.piece_to_id(pieces.id_to_piece(i))
        if same != before.unk_id():
            shared += 1
            assert torch.equal(rows[i], before_rows[same])
    assert shared > 260  # special pieces, bytes, and words of the first vocabulary
    tags = [before.piece_to_id(">>en<<"), before.piece_to_id(">>de<<")]
    assert torch.allclose(rows[pieces.piece_to_id(">>es<<")], before_rows[tags].mean(0))
    matrix = "encoder.0.self_attention.key.weight"
    assert torch.equal(new.state_dict()[matrix], old.state_dict()[matrix])


def test_another_shape_is_rejected(finished: Finished) -> None:
    folder, _, pieces = finished
    wider = Transformer(PRESETS["small"](len(pieces), **_SHAPE | {"d_ff": 64}))
    with pytest.raises(RecipeError, match="another shape"):
        start_from(folder, wider, pieces)


def test_the_error_names_start_for_a_missing_folder(tmp_path: Path, finished: Finished) -> None:
    _, old, pieces = finished
    with pytest.raises(RecipeError, match="start"):
        start_from(tmp_path / "nowhere", old, pieces)
