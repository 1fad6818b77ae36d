"""Optimizers, and training in bfloat16."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, distributed, multiprocessing, nn

from model.config import ModelConfig
from model.transformer import Transformer
from training.data.batches import PADDING, Batch
from training.loop import bfloat16, hardware
from training.loop.bfloat16 import BFloat16, projected_loss
from training.loop.loss import batch_loss, label_loss
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
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
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
    recipe = TrainRecipe(
        schedule="linear", optimizer="muon", rate=0.002, matrix_rate=0.01, warmup=10
    )
    optimizers = [torch.optim.SGD([nn.Parameter(torch.zeros(1))]) for _ in range(2)]
    rates = [set_rates(optimizers, recipe, 512, step, (step - 1) / 1000) for step in range(1, 1002)]
    assert rates[:10] == pytest.approx(
        [0.0002 * step * (1001 - step) / 1000 for step in range(1, 11)]
    )
    assert np.diff(rates[9:]) == pytest.approx(-0.002 / 1000)
    assert rates[-1] == 0.0
    set_rates(optimizers, recipe, 512, 501, 0.5)
    assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == pytest.approx(
        [0.005, 0.001]
    )


def test_schedules() -> None:
    rates = [noam(step, 512, 4000) for step in range(1, 8000)]
    assert int(np.argmax(rates)) + 1 == 4000
    assert wsd(1000, 0.5, 10, 0.2) == 1.0
    assert wsd(1000, 1.0, 10, 0.2) == pytest.approx(0.0)
    assert wsd(5, 0.0, 10, 0.2) == 0.5


_SHAPES: list[dict[str, Any]] = [
    {},
    {"tied_embeddings": False, "output_bias": True},
    {"norm": "pre", "embedding_norm": True, "activation": "gelu"},
    {"recurrence": "ssru"},
]


def _model(**fields: Any) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 64, "heads": 4, "d_ff": 128, "encoder_layers": 2, "decoder_layers": 2}
    return Transformer(
        ModelConfig(**{"vocab_size": 100, "dropout": 0.0, **sizes, **fields})
    ).train()


def _batch(rows: int, source: int, target: int) -> Batch:
    draw = torch.Generator().manual_seed(rows)
    left, right = (
        torch.randint(4, 100, (rows, width), generator=draw) for width in (source, target)
    )
    for row in range(1, rows):
        left[row, 1 + row % source :] = PADDING
        right[row, 2 + row % target :] = PADDING
    return Batch(left, right, int((right[:, 1:] != PADDING).sum()))


def _gradients(model: Transformer) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("size", [(9, 60, 41), (60, 19, 23)])
def test_loss_and_gradients_are_those_of_float32(
    shape: dict[str, Any], size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bfloat16, "_LOSS_ROWS", 256)
    model, batch = _model(**shape), _batch(*size)
    half = copy.deepcopy(model)
    expected = batch_loss(model, batch, 0.1, label_loss)
    expected.backward()  # type: ignore[no-untyped-call]
    with BFloat16():
        found = batch_loss(half, batch, 0.1, projected_loss)
    found.backward()  # type: ignore[no-untyped-call]
    assert found.item() == pytest.approx(expected.item(), rel=0.002)
    assert {p.grad.dtype for p in half.parameters() if p.grad is not None} == {torch.float32}
    left, right = _gradients(model), _gradients(half)
    assert len(left) == len(right)
    assert float((left - right).norm() / left.norm()) < 0.08


def test_float32_on_a_cpu_computes_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without products of bfloat16 nothing is replaced."""
    monkeypatch.setattr(hardware, "has_bfloat16_products", lambda device: False)
    assert hardware.label_loss_on(torch.device("cpu")) is label_loss
    assert hardware.row_multiple() == 1
    with hardware.autocast(torch.device("cpu")):
        assert torch.nn.Linear(4, 4)(torch.ones(2, 4)).dtype == torch.float32
