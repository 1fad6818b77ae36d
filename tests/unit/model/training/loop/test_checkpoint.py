"""A checkpoint restores weights, optimisers and progress exactly."""

from __future__ import annotations

from pathlib import Path

import torch

from model.config import ModelConfig
from model.training.loop import checkpoint
from model.training.loop.checkpoint import Progress
from model.training.loop.optimizers import build_optimizers
from model.training.recipe import TrainRecipe
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
        checkpoint.save(folder, model, optimizers, Progress(step, 1, 7, 45 * step, 2.5), keep=3)
    return model, optimizers


def test_a_loaded_checkpoint_equals_the_saved_state(tmp_path: Path) -> None:
    model, optimizers = _trained(tmp_path / "run", 4)
    other = Transformer(_CONFIG)
    others = build_optimizers(other, _RECIPE)
    assert checkpoint.load(tmp_path / "run", other, others, torch.device("cpu")) == Progress(4, 1, 7, 180, 2.5)
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name
    for one, two in zip(optimizers, others, strict=True):
        saved, loaded = one.state_dict()["state"], two.state_dict()["state"]
        assert saved.keys() == loaded.keys()
        for index, moments in saved.items():
            assert moments.keys() == loaded[index].keys()
            for key, tensor in moments.items():
                assert torch.equal(loaded[index][key], tensor)
        two.step()


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    _trained(tmp_path / "run", 4)
    names = [path.name for path in checkpoint.checkpoints(tmp_path / "run")]
    assert names == [f"step-000000{step}.safetensors" for step in (2, 3, 4)]


def test_a_folder_without_a_checkpoint_loads_nothing(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path, Transformer(_CONFIG), [], torch.device("cpu")) is None
