"""Hidden ends are masked in the encoder and visible in the decoder."""

from __future__ import annotations

import pytest
import torch

from model.config import ModelConfig
from model.transformer import Transformer
from training.data.batches import PADDING, Batch
from training.loop.loss import batch_loss


def test_hidden_ends_are_masked_in_the_encoder_only(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    config = ModelConfig(
        vocab_size=50, d_model=16, heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.0
    )
    model = Transformer(config)
    source = torch.tensor([[5, 9, 8, 7, 3], [5, 9, 3, PADDING, PADDING]])
    batch = Batch(source, torch.full((2, 5), 9), 8)
    masks: list[tuple[str, torch.Tensor]] = []
    encode, decode = model.encode, model.decode

    def encoding(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        masks.append(("encoder", mask))
        return encode(ids, mask)

    def decoding(memory: torch.Tensor, mask: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        masks.append(("decoder", mask))
        return decode(memory, mask, target)

    monkeypatch.setattr(model, "encode", encoding)
    monkeypatch.setattr(model, "decode", decoding)
    assert torch.isfinite(batch_loss(model, batch, 0.1, hidden_ends=1.0))
    whole = [[True] * 5, [True, True, True, False, False]]
    assert [(name, mask.tolist()) for name, mask in masks] == [
        ("encoder", [[False, True, True, True, False], [False, True, False, False, False]]),
        ("decoder", whole),
    ]
    masks.clear()
    batch_loss(model, batch, 0.1)
    assert [mask.tolist() for _, mask in masks] == [whole, whole]
