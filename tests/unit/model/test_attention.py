"""A gate of a head in fused attention. test_transformer.py compares fused attention with attention that returns weights.

PyTorch promises a tolerance: the order of its float32 sums depends on the processor, the shape and the number of threads.
"""

from __future__ import annotations

import pytest
import torch

from model.attention import MultiHeadAttention

pytestmark = pytest.mark.numeric


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
