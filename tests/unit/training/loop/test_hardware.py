"""Code for GPUs, tested on a CPU: batched Muon and compiled layers.

PyTorch promises its usual tolerance, because batches and compilation change the order of float32
sums.
"""

from __future__ import annotations

import pytest
import torch

from model.config import ModelConfig
from model.transformer import Transformer
from training.data.batches import Batch
from training.loop import optimizers
from training.loop.hardware import (
    compile_layers,
    without_compilation,
)
from training.loop.loss import batch_loss
from training.loop.optimizers import Muon

pytestmark = pytest.mark.numeric

_CONFIG = ModelConfig(
    vocab_size=50,
    d_model=16,
    heads=2,
    d_ff=32,
    encoder_layers=2,
    decoder_layers=2,
    max_length=64,
    dropout=0.0,
)


def _batch(rows: int, width: int, seed: int = 1) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(4, 50, (rows, width), generator=draw) for _ in range(2))
    source[:, -2:] = 0
    return Batch(source, target, rows * (width - 1))


def test_batched_muon_equals_torch_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "has_bfloat16_products", lambda device: True)
    torch.manual_seed(1)
    shapes = [(8, 8), (24, 8), (8, 8), (8, 24)]
    ours, theirs = ([torch.nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    left = Muon(ours, 0.02, weight_decay=0.01)
    right = torch.optim.Muon(theirs, lr=0.02, momentum=0.95, weight_decay=0.01)
    for step in range(4):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape)
            other.grad = mine.grad.clone()
        left.step()
        right.step()
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, other, msg=f"step {step}")
    left.load_state_dict(right.state_dict())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # warnings of torch about its own code
def test_compiled_layers_have_the_same_gradients_for_every_shape() -> None:
    torch.manual_seed(2)
    model, compiled = Transformer(_CONFIG), Transformer(_CONFIG)
    compiled.load_state_dict(model.state_dict())
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    label_loss = compile_layers(compiled, backend="aot_eager")
    for rows, width in ((6, 8), (3, 16), (7, 24)):
        batch = _batch(rows, width)
        expected, found = (
            batch_loss(model, batch, 0.1),
            batch_loss(compiled, batch, 0.1, label_loss),
        )
        torch.testing.assert_close(found, expected)
        expected.backward()
        found.backward()
    for (name, one), other in zip(model.named_parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)
    # One graph each for encoder layers, decoder layers and the loss, and one more if the first
    # shape counts as a constant.
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    compiled.eval()
    with without_compilation(), torch.no_grad():
        torch.testing.assert_close(
            batch_loss(compiled, batch, 0.0), batch_loss(model.eval(), batch, 0.0)
        )
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs <= 4
