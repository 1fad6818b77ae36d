"""Attention weights, and the gates of heads. test_transformer.py compares fused attention with products.

PyTorch promises a tolerance: the order of its float32 sums depends on the processor, the shape and the number of threads.
"""

from __future__ import annotations

import math

import pytest
import torch

from model.attention import MultiHeadAttention, attention_weights

pytestmark = pytest.mark.numeric


def test_weights_equal_the_equation_of_the_paper() -> None:
    torch.manual_seed(1)
    query, key = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
    weights = attention_weights(query, key, None)
    expected = torch.softmax((query @ key.transpose(-2, -1)) / math.sqrt(8), dim=-1)
    assert torch.allclose(weights, expected)


def test_a_gate_of_zero_switches_a_head_off() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(32, 4).eval()
    query, key, value = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
    gate = torch.ones(2, 4)
    gate[:, 2] = 0
    with torch.inference_mode():
        off = attention.attend(query, key, value, None, gate)
        value[:, 2] = 0
        assert torch.allclose(off, attention.attend(query, key, value, None), atol=1e-6)


def test_the_variance_of_products_grows_with_the_width_unless_they_are_divided() -> None:
    """The paper, footnote 4: products of vectors of variance 1 have variance D, and the softmax becomes sharp."""
    torch.manual_seed(4)

    def entropy(weights: torch.Tensor) -> float:
        return float(-(weights * weights.clamp_min(1e-30).log2()).sum(-1).mean())

    sharpness = []
    for width in (16, 64, 256):
        query, key = torch.randn(1, 1, 200, width), torch.randn(1, 1, 200, width)
        products = query @ key.transpose(-2, -1)
        assert float(products.var()) == pytest.approx(width, rel=0.15)
        assert float((products / math.sqrt(width)).var()) == pytest.approx(1, rel=0.15)
        divided = entropy(attention_weights(query, key, None))
        sharpness.append(entropy(products.softmax(-1)))
        assert divided > 6.5 > 2 * sharpness[-1]  # of at most log2(200) = 7.6 bits
    assert sharpness == sorted(sharpness, reverse=True)
