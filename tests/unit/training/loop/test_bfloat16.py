"""Training in bfloat16 on a CPU: loss and gradients are those of float32, as far as the format
goes, for every shape of a model and of a batch.

A number of bfloat16 has 8 significant bits: a rounding changes it by at most 2^-9. Gradients pass
some dozens of roundings with random signs, so their vector differs by a few percent.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from model.config import ModelConfig
from model.transformer import Transformer
from training.data.batches import PADDING, Batch
from training.loop import bfloat16, hardware
from training.loop.bfloat16 import BFloat16, projected_loss
from training.loop.loss import batch_loss, label_loss

pytestmark = pytest.mark.numeric

_SHAPES: list[dict[str, Any]] = [
    {},
    {"tied_embeddings": False, "output_bias": True},
    {"norm": "pre", "embedding_norm": True, "activation": "gelu"},
    {"recurrence": "ssru"},
]


def _model(**fields: Any) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 64, "heads": 4, "d_ff": 128, "encoder_layers": 2, "decoder_layers": 2}
    return Transformer(ModelConfig(**{"vocab_size": 100, "dropout": 0.0, **sizes, **fields})).train()


def _batch(rows: int, source: int, target: int) -> Batch:
    draw = torch.Generator().manual_seed(rows)
    left, right = (torch.randint(4, 100, (rows, width), generator=draw) for width in (source, target))
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
