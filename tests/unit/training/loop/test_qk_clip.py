"""QK-clip limits attention logits, also at a very high rate, and does not change heads within the
limit.

PyTorch promises its usual tolerance, because the order of float32 sums depends on the shape.
"""

from __future__ import annotations

import pytest
import torch

from model.config import ModelConfig
from model.transformer import Transformer
from training.data.batches import PADDING, Batch
from training.loop.loss import batch_loss
from training.loop.optimizers import build_optimizers, set_rates
from training.loop.qk_clip import QKClip
from training.recipe import TrainRecipe

pytestmark = pytest.mark.numeric

_CONFIG = ModelConfig(
    vocab_size=40,
    d_model=32,
    heads=4,
    d_ff=64,
    encoder_layers=2,
    decoder_layers=2,
    max_length=64,
    dropout=0.0,
)
_BOUND = 8.0


def _batch(seed: int = 1) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(4, 40, (8, 10), generator=draw) for _ in range(2))
    source[:4, 7:], target[:4, 6:] = PADDING, PADDING
    return Batch(source, target, int((target[:, 1:] != PADDING).sum()))


def _model() -> Transformer:
    torch.manual_seed(1)
    return Transformer(_CONFIG)


def test_only_heads_above_the_bound_are_scaled() -> None:
    model, batch = _model(), _batch()
    attention = model.encoder[1].self_attention
    attention.query.weight.data[8:16] *= 40.0
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    clip = QKClip(model, _BOUND)
    assert clip.clip(batch) > _BOUND
    after = clip.largest_logits(batch)["encoder.1.self_attention"]
    assert float(after[1]) == pytest.approx(_BOUND, rel=1e-4)
    for name, parameter in model.named_parameters():
        if name.startswith("encoder.1.self_attention.") and (".query." in name or ".key." in name):
            changed = (
                (parameter != before[name]).flatten(1).any(1)
                if parameter.dim() == 2
                else parameter != before[name]
            )
            assert not changed[:8].any()
            assert not changed[16:].any()
        else:
            assert torch.equal(parameter, before[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("query_key_rate", [None, 0.05])
def test_logits_stay_bounded_at_a_very_high_rate(query_key_rate: float | None) -> None:
    recipe = TrainRecipe(
        optimizer="muon",
        schedule="wsd",
        rate=0.02,
        matrix_rate=0.2,
        query_key_rate=query_key_rate,
        warmup=1,
        decay=0.0,
    )

    def largest(clipped: bool) -> float:
        model = _model().train()
        optimizers, clip = build_optimizers(model, recipe), QKClip(model, _BOUND)
        for step in range(30):
            set_rates(optimizers, recipe, _CONFIG.d_model, step + 1, 0.0)
            batch_loss(model, _batch(step), 0.1).backward()  # type: ignore[no-untyped-call]
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            if clipped:
                clip.clip(_batch(step))
        return max(float(one.max()) for one in clip.largest_logits(_batch(29)).values())

    assert largest(clipped=False) > 4 * _BOUND
    # Scaling a head changes the input of the next layer, so logits may exceed the bound a little.
    assert largest(clipped=True) < 2 * _BOUND
