"""Initial weights are copied from a finished model of the same shape and vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from model.checkpoint import save_model
from model.config import PRESETS
from model.model_folder import ModelFolder
from model.transformer import Transformer
from tests.support.models.folders import new_folder
from training.loop import checkpoint
from training.loop.checkpoint import Progress, start_from
from training.recipe import RecipeError

_SHAPE = {"d_model": 16, "heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}


def _model(**changes: int) -> Transformer:
    return Transformer(PRESETS["small"](90, **_SHAPE | changes))


@pytest.fixture
def finished(tmp_path: Path) -> tuple[ModelFolder, Transformer]:
    model = _model()
    folder = new_folder(tmp_path / "old", model.config)
    save_model(folder, model)
    (folder.path / "tokenizer.model").write_bytes(b"pieces")
    return folder, model


def test_all_weights_are_copied(finished: tuple[ModelFolder, Transformer]) -> None:
    folder, old = finished
    new = _model()
    start_from(folder.path, new, folder.path / "tokenizer.model")
    for name, tensor in new.state_dict().items():
        assert torch.equal(tensor, old.state_dict()[name]), name


@pytest.mark.parametrize(
    ("d_ff", "pieces", "error"),
    [
        (64, b"pieces", "another shape"),
        (32, b"others", r"old has another vocabulary; set \[vocabulary\] start"),
    ],
)
def test_another_shape_or_vocabulary_is_refused(
    finished: tuple[ModelFolder, Transformer], tmp_path: Path, d_ff: int, pieces: bytes, error: str
) -> None:
    (tmp_path / "tokenizer.model").write_bytes(pieces)
    with pytest.raises(RecipeError, match=error):
        start_from(finished[0].path, _model(d_ff=d_ff), tmp_path / "tokenizer.model")


def test_the_error_names_start_for_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="start"):
        start_from(tmp_path / "nowhere", _model(), tmp_path / "tokenizer.model")


def test_only_the_last_checkpoints_are_kept_and_the_newest_is_loaded(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    optimizers = [torch.optim.Adam(model.parameters())]
    assert checkpoint.load(tmp_path, model, optimizers, torch.device("cpu")) is None
    for step in range(1, 5):
        with torch.no_grad():
            model.weight.fill_(step)
        checkpoint.save(tmp_path, model, optimizers, Progress(step, 1, 7, 45 * step, 2.5), keep=3)
    names = [path.name for path in checkpoint.checkpoints(tmp_path)]
    assert names == [f"step-000000{step}.safetensors" for step in (2, 3, 4)]
    other = nn.Linear(2, 2)
    others = [torch.optim.Adam(other.parameters())]
    assert checkpoint.load(tmp_path, other, others, torch.device("cpu")) == Progress(
        4, 1, 7, 180, 2.5
    )
    assert torch.equal(other.weight, model.weight)
