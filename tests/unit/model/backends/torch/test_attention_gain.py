"""Attention gain is the growth of the loss with equal attention weights in one layer."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from model.backends.torch.attention_gain import attention_gain
from model.config import ModelConfig
from model.transformer import Transformer

_SHAPE = {"vocab_size": 40, "d_model": 16, "heads": 2, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 2}


def _model() -> Transformer:
    torch.manual_seed(1)
    model = Transformer(ModelConfig(**_SHAPE, dropout=0.0)).eval()
    for name, parameter in model.named_parameters():
        if ".query." in name or ".key." in name:
            parameter.data *= 3.0  # so that the weights are far from equal
    return model


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    source, target = (torch.randint(6, 40, (3, 9), generator=draw) for _ in range(2))
    target[:, 0] = 2
    source[1, 6:], target[2, 5:] = 0, 0
    return source, target


def _mean_loss(model: Transformer, source: torch.Tensor, target: torch.Tensor) -> float:
    """Mean loss per written token, one sentence after the other."""
    losses = []
    for row, written in zip(source, target, strict=True):
        row, written = row[row != 0][None], written[written != 0][None]
        logits = model(row, torch.ones_like(row, dtype=torch.bool), written[:, :-1])[0]
        losses.append(functional.cross_entropy(logits, written[0, 1:], reduction="none"))
    return float(torch.cat(losses).mean())


@torch.no_grad()
def test_the_gain_is_that_of_a_model_whose_queries_are_zero() -> None:
    model, (source, target) = _model(), _batch()
    gains = attention_gain(model, source, target)
    assert {kind: len(layers) for kind, layers in gains.items()} == {"encoder": 2, "decoder": 2, "cross": 2}
    before = _mean_loss(model, source, target)
    layers = {
        "encoder": [layer.self_attention for layer in model.encoder],
        "decoder": [layer.self_attention for layer in model.decoder],
        "cross": [layer.cross_attention for layer in model.decoder],
    }
    for kind, attentions in layers.items():
        for layer, attention in enumerate(attentions):
            kept = [parameter.clone() for parameter in attention.query.parameters()]
            for parameter in attention.query.parameters():
                parameter.zero_()
            assert gains[kind][layer] == pytest.approx(_mean_loss(model, source, target) - before, abs=1e-5)
            assert abs(gains[kind][layer]) > 1e-4  # the case is not trivial
            for parameter, old in zip(attention.query.parameters(), kept, strict=True):
                parameter.copy_(old)
    assert _mean_loss(model, source, target) == pytest.approx(before, abs=1e-6)


def test_a_layer_that_attends_equally_has_no_gain() -> None:
    model, (source, target) = _model(), _batch()
    for parameter in model.encoder[1].self_attention.query.parameters():
        parameter.data.zero_()
    gains = attention_gain(model, source, target)
    assert gains["encoder"][1] == pytest.approx(0.0, abs=1e-6)
    assert abs(gains["encoder"][0]) > 1e-4


def test_a_decoder_with_a_recurrence_has_only_cross_attention() -> None:
    torch.manual_seed(1)
    model = Transformer(ModelConfig(**_SHAPE, dropout=0.0, recurrence="ssru")).eval()
    gains = attention_gain(model, *_batch())
    assert {kind: len(layers) for kind, layers in gains.items()} == {"encoder": 2, "decoder": 0, "cross": 2}
