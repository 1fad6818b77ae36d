"""A checkpoint is loaded if there is one, and only the last ones are kept."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from training.loop import checkpoint
from training.loop.checkpoint import Progress


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
    assert checkpoint.load(tmp_path, other, others, torch.device("cpu")) == Progress(4, 1, 7, 180, 2.5)
    assert torch.equal(other.weight, model.weight)
