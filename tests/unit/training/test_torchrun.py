"""What several ranks need, tested without a GPU."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import distributed

from tests.support.models.tiny_training import run_folder, tiny_recipe
from training import commands
from training.loop import trainer
from training.loop.build import build_trainer
from training.loop.hardware import autocast, gradient_scaler


def test_a_rank_chooses_its_gpu_before_nccl_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    events = Mock()
    monkeypatch.setattr(commands, "rank_and_world_size", lambda: (1, 2))
    monkeypatch.setattr(commands, "training_device", lambda: events.device() and torch.device("cuda", 1))
    monkeypatch.setattr(commands, "build_trainer", Mock())
    for name in ("init_process_group", "barrier", "destroy_process_group"):
        monkeypatch.setattr(distributed, name, getattr(events, name))
    commands.train(Mock(), tmp_path)
    first, second, *_ = events.mock_calls
    assert first[0] == "device" and second[0] == "init_process_group"
    assert second.kwargs["device_id"] == torch.device("cuda", 1) and second.kwargs["timeout"] >= timedelta(hours=6)


def test_ranks_exchange_their_clocks_only_with_the_log(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "rank_and_world_size", lambda: (0, 2))
    monkeypatch.setattr(trainer, "average_gradients", lambda parameters, ranks: None)
    shared = Mock()
    monkeypatch.setattr(distributed, "broadcast", shared)
    build_trainer(tiny_recipe(prepared, steps=41), run_folder(prepared, tmp_path / "run")).run()
    assert shared.call_count == 2


@pytest.mark.parametrize(("capability", "dtype"), [((8, 0), torch.bfloat16), ((7, 5), torch.float16)])
def test_training_uses_the_half_precision_of_the_gpu(
    capability: tuple[int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    made = Mock()
    monkeypatch.setattr(torch, "autocast", made)
    autocast(torch.device("cuda"))
    assert made.call_args.args == ("cuda", dtype)
    assert gradient_scaler(torch.device("cpu")).is_enabled() is False
