"""The chunked loss and its gradients equal those of the plain loss.

PyTorch promises its usual tolerance, because chunks change the order of float32 sums.
"""

from __future__ import annotations

import pytest
import torch

from model.config import ModelConfig
from model.training.data.batch import IGNORED, Batch
from model.training.loop import chunked_loss
from model.training.loop.chunked_loss import chunked_projection_loss
from model.training.loop.loss import batch_loss
from model.transformer import Transformer

pytestmark = pytest.mark.numeric


def _batch() -> Batch:
    draw = torch.Generator().manual_seed(1)
    source, target = (torch.randint(4, 50, (6, 11), generator=draw) for _ in range(2))
    labels = torch.randint(4, 50, (66,), generator=draw)
    labels[60:] = IGNORED
    return Batch(source, target, torch.arange(66), labels, 60, 66)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tied", [True, False])
def test_losses_and_gradients_are_equal(monkeypatch: pytest.MonkeyPatch, smoothing: float, tied: bool) -> None:
    monkeypatch.setattr(chunked_loss, "_CHUNK_POSITIONS", 16)
    torch.manual_seed(2)
    config = ModelConfig(
        vocab_size=50, d_model=16, heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, max_length=64, dropout=0.0,
        tied_embeddings=tied,
    )  # fmt: skip
    whole, chunked = Transformer(config), Transformer(config)
    chunked.load_state_dict(whole.state_dict())
    expected = batch_loss(whole, _batch(), smoothing)
    found = batch_loss(chunked, _batch(), smoothing, chunked_projection_loss)
    torch.testing.assert_close(found, expected)
    (expected / 2).backward()
    (found / 2).backward()
    for (name, one), other in zip(whole.named_parameters(), chunked.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)


def test_bfloat16_products_are_close_to_float32() -> None:
    torch.manual_seed(2)
    config = ModelConfig(vocab_size=50, d_model=16, heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.0)
    model = Transformer(config)
    expected = batch_loss(model, _batch(), 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        found = batch_loss(model, _batch(), 0.1, chunked_projection_loss)
    torch.testing.assert_close(found.float(), expected, rtol=0.01, atol=0.01)
    found.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
