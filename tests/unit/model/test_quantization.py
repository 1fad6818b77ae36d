"""Tests of int8 in torch: rounding, exact integer sums and the difference from float32.

Integer sums promise equal bits on every processor, and so does a quantized layer, whose other steps are elementwise.
"""

from __future__ import annotations

import pytest
import torch

from model import quantization
from model.backends.torch.backend import TorchBackend
from model.quantization import QuantizedLinear, integer_product, quantize, quantize_rows
from model.search.base import Backend
from tests.support.cpu_models import VARIANTS, decode, sentences, tiny

pytestmark = pytest.mark.numeric


def test_rounding_is_to_even_and_symmetric() -> None:
    x = torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -127.0], [0.0] * 6])
    q, scale = quantize_rows(x)
    assert q.tolist() == [[127, 0, 2, 2, 0, -127], [0] * 6]
    assert scale.flatten().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("exact", [True, False])
def test_integer_sums_are_exact(monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    if not exact:
        monkeypatch.setattr(quantization, "_exact_int_mm", lambda: False)
    generator = torch.Generator().manual_seed(0)
    left = torch.randint(-127, 128, (5, 2100), generator=generator, dtype=torch.int8)
    right = torch.randint(-127, 128, (7, 2100), generator=generator, dtype=torch.int8)
    left[0], right[0] = 127, 127
    assert torch.equal(integer_product(left, right).long(), left.long() @ right.long().t())


def test_a_row_does_not_depend_on_other_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    linear = QuantizedLinear.of(torch.randn(48, 64, generator=generator), torch.randn(48, generator=generator))
    rows = torch.randn(9, 64, generator=generator) * torch.logspace(-3, 3, 9)[:, None]
    together = linear(rows)
    assert all(torch.equal(linear(rows[i : i + 1])[0], together[i]) for i in range(9))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_quantized_model_is_close_to_the_original(variant: str) -> None:
    transformer = tiny(**VARIANTS[variant])
    before = {name: tensor.clone() for name, tensor in transformer.state_dict().items()}
    small = quantize(transformer)
    config = transformer.config
    sources, targets = sentences(config, (8, 3)), sentences(config.replace(source_vocab_size=None), (6, 6))

    def run(backend: Backend) -> torch.Tensor:
        outputs = decode(backend, sources, [0, 1], targets, candidates=config.vocab_size)
        scores = torch.zeros(len(outputs), 2, config.vocab_size)
        for step, output in enumerate(outputs):
            scores[step].scatter_(1, torch.from_numpy(output.ids), torch.from_numpy(output.scores))
        return scores

    exact, rounded = run(TorchBackend(transformer, 2)), run(TorchBackend(small, 2))
    assert 0 < (exact - rounded).abs().max() < 0.5
    assert all(torch.equal(tensor, before[name]) for name, tensor in transformer.state_dict().items())


def test_a_quantized_model_is_less_than_half_the_size() -> None:
    transformer = tiny(vocab_size=4000)
    sizes = [
        sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict(keep_vars=True).values())
        for model in (transformer, quantize(transformer))
    ]
    assert sizes[1] < 0.45 * sizes[0]  # the tied projection counts twice in a state_dict
