"""Gradients are averaged over two ranks; learning-rate schedules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing, nn

from training.loop.optimizers import average_gradients, noam, set_rates, wsd
from training.recipe import TrainRecipe

pytestmark = pytest.mark.numeric


def _layer() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Linear(5, 2))


def _add_gradients(model: nn.Module, scale: float) -> None:
    torch.manual_seed(4)
    (scale * model(torch.randn(7, 6)).square().sum()).backward()


def _average_as_rank(rank: int, folder: Path) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = _layer()
    _add_gradients(model, 1.0 + 2.0 * rank)
    average_gradients(model.parameters(), 2)
    torch.save([p.grad for p in model.parameters()], folder / f"rank-{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_ranks_get_the_average(tmp_path: Path) -> None:
    multiprocessing.spawn(_average_as_rank, (tmp_path,), nprocs=2)
    expected = _layer()
    _add_gradients(expected, 2.0)
    for rank in range(2):
        found = torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True)
        for gradient, parameter in zip(found, expected.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad)


def test_the_linear_rate_rises_and_falls_to_zero_over_the_whole_budget() -> None:
    recipe = TrainRecipe(schedule="linear", optimizer="muon", rate=0.002, matrix_rate=0.01, warmup=10)
    optimizers = [torch.optim.SGD([nn.Parameter(torch.zeros(1))]) for _ in range(2)]
    rates = [set_rates(optimizers, recipe, 512, step, (step - 1) / 1000) for step in range(1, 1002)]
    assert rates[:10] == pytest.approx([0.0002 * step * (1001 - step) / 1000 for step in range(1, 11)])
    assert np.diff(rates[9:]) == pytest.approx(-0.002 / 1000)
    assert rates[-1] == 0.0
    set_rates(optimizers, recipe, 512, 501, 0.5)
    assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == pytest.approx([0.005, 0.001])


def test_schedules() -> None:
    rates = [noam(step, 512, 4000) for step in range(1, 8000)]
    assert int(np.argmax(rates)) + 1 == 4000
    assert wsd(1000, 0.5, 10, 0.2) == 1.0
    assert wsd(1000, 1.0, 10, 0.2) == pytest.approx(0.0)
    assert wsd(5, 0.0, 10, 0.2) == 0.5
