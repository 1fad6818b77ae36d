"""Tests of head health: reading heads are distinguished from heads on the own, the first or the last position.

PyTorch promises a relative tolerance of 1e-4, because the order of its float32 sums depends on the processor.
"""

from __future__ import annotations

import pytest
import torch

from model.backends.torch.head_health import model_health, reading_share, summary
from model.config import ModelConfig
from model.transformer import Transformer

pytestmark = pytest.mark.numeric

_CONFIG = ModelConfig(
    vocab_size=40, d_model=16, heads=2, d_ff=32, encoder_layers=2, decoder_layers=1, max_length=64, dropout=0.0
)


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    source, target = (torch.randint(6, 40, (3, 12), generator=draw) for _ in range(2))
    source[:, 0], target[:, 0] = 5, 2
    for row, length in enumerate((12, 9, 6)):
        source[row, length - 1], source[row, length:] = 3, 0
        target[row, length:] = 0
    return source, target


def _model() -> Transformer:
    torch.manual_seed(1)
    return Transformer(_CONFIG).eval()


def test_uniform_heads_count_as_reading() -> None:
    model = _model()
    for name, parameter in model.named_parameters():
        if ".query." in name:
            parameter.data.zero_()
    health = model_health(model, *_batch())
    assert reading_share(health.encoder) == reading_share(health.cross) == 1.0
    lengths = torch.tensor([12.0, 9.0, 6.0])
    wanted = float((lengths * lengths.log2()).sum() / lengths.sum())
    head = health.encoder[0][0]
    assert head.entropy == pytest.approx(wanted, rel=1e-4)
    # Each query gives every position the weight 1 / length. The first and last positions do not count as own.
    assert head.first == pytest.approx(float(3 / lengths.sum()), rel=1e-4)
    assert head.last == pytest.approx(head.first, rel=1e-4)
    assert head.own == pytest.approx(float(((lengths - 2) / lengths).sum() / lengths.sum()), rel=1e-4)
    assert health.cross[0][0].own == 0.0
    assert health.decoder[0][0].last == 0.0


@pytest.mark.parametrize(("id", "field"), [(5, "first"), (3, "last")])
def test_a_head_with_all_weight_on_an_end_is_idle(id: int, field: str) -> None:
    model = _model()
    attention = model.encoder[0].self_attention
    for name in ("query", "key"):
        getattr(attention, name).weight.data.zero_()
    attention.query.bias.data.fill_(30.0)
    # Only the embedding of this token has a value in feature 0, so that only its key is large.
    model.embedding.weight.data[:, 0] = 0.0
    model.embedding.weight.data[id, 0] = 5.0
    model.get_buffer("position_table")[:, 0] = 0.0
    attention.key.weight.data[:, 0] = 1.0
    health = model_health(model, *_batch())
    for head in health.encoder[0]:
        assert getattr(head, field) == pytest.approx(1.0, abs=1e-3)
        assert head.entropy == pytest.approx(0.0, abs=1e-2)
        assert not head.reading
    figures = summary(health)["encoder"]
    assert isinstance(figures, dict)
    assert figures["elsewhere"][0] == [0.0, 0.0]
    assert figures["reading"] <= 0.5


def test_padding_does_not_count() -> None:
    model, (source, target) = _model(), _batch()
    alone = model_health(model, source[2:, :6], target[2:, :6])
    padded = model_health(model, source[2:], target[2:])
    for kind, layers in alone.kinds().items():
        for one, other in zip(layers, padded.kinds()[kind], strict=True):
            for head, same in zip(one, other, strict=True):
                assert head.entropy == pytest.approx(same.entropy, abs=1e-4)
                assert head.last == pytest.approx(same.last, abs=1e-4)
