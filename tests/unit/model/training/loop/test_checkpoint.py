"""Checkpoints travel in parts: what is joined elsewhere goes on where it was, and a part that is missing is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model.config import ModelConfig
from model.training.loop import checkpoint as state
from model.training.loop.checkpoint import Progress
from model.training.loop.optimizers import build_optimizers
from model.training.recipe import RecipeError, TrainRecipe
from model.transformer import Transformer

_CONFIG = ModelConfig(vocab_size=60, d_model=16, heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, max_length=32)
_RECIPE = TrainRecipe(optimizer="muon", schedule="wsd")


def _trained(folder: Path, steps: int) -> tuple[Transformer, list[torch.optim.Optimizer]]:
    folder.mkdir()
    torch.manual_seed(1)
    model = Transformer(_CONFIG)
    optimizers = build_optimizers(model, _RECIPE)
    for step in range(1, steps + 1):
        ids = torch.randint(4, 60, (3, 5))
        model(ids, ids > 0, ids).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        state.save(folder, model, optimizers, Progress(step, 1, 7, 45 * step, 2.5), keep=3)
    (folder / "log.jsonl").write_text('{"step": 4}\n', encoding="utf-8")
    return model, optimizers


@pytest.mark.slow
def test_parts_join_to_a_checkpoint_that_goes_on(tmp_path: Path) -> None:
    model, optimizers = _trained(tmp_path / "here", 4)
    files = state.export(tmp_path / "here", tmp_path / "parts", part_bytes=5000)
    assert len(files) > 3
    assert all(file.stat().st_size <= 5000 for file in files)
    assert state.restore(tmp_path / "parts", tmp_path / "there") == 4
    other = Transformer(_CONFIG)
    others = build_optimizers(other, _RECIPE)
    assert state.load(tmp_path / "there", other, others, torch.device("cpu")) == Progress(4, 1, 7, 180, 2.5)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], tensor, atol=1e-3, rtol=1e-3)
    for one, two in zip(optimizers, others, strict=True):
        held = one.state_dict()["state"], two.state_dict()["state"]
        assert held[0].keys() == held[1].keys()
        for index, before in held[0].items():
            after = held[1][index]
            assert before.keys() == after.keys()
            for key, tensor in before.items():
                torch.testing.assert_close(after[key], tensor, atol=1e-4, rtol=1e-2)
                assert after[key].dtype == tensor.dtype
        two.step()  # goes on without complaint
    assert (tmp_path / "there" / "log.jsonl").exists()


def test_an_average_is_enough_to_package(tmp_path: Path) -> None:
    _trained(tmp_path / "here", 4)
    wanted = state.average(state.checkpoints(tmp_path / "here")[-2:])
    state.export(tmp_path / "here", tmp_path / "parts", last=2)
    state.restore(tmp_path / "parts", tmp_path / "there")
    found = state.average(state.checkpoints(tmp_path / "there"))
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-3, rtol=1e-3)
    assert state.load(tmp_path / "there", Transformer(_CONFIG), [], torch.device("cpu")) is None


def test_missing_parts_are_named(tmp_path: Path) -> None:
    _trained(tmp_path / "here", 1)
    files = state.export(tmp_path / "here", tmp_path / "parts", part_bytes=9000)
    files[1].unlink()
    with pytest.raises(RecipeError, match=files[1].name):
        state.restore(tmp_path / "parts", tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_folder_without_a_checkpoint_exports_nothing(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no checkpoint"):
        state.export(tmp_path, tmp_path / "parts")
