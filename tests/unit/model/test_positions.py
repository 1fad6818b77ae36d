"""Tests of positional encodings: sinusoidal (section 3.5 of the paper).

Tables promise equal bits where rows are only selected, else the error of float32 sines (1e-4 at most).
"""

from __future__ import annotations

import pytest
import torch

from model.positions import sinusoidal_table

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("width", [2, 8, 512])
def test_table_equals_the_formula_of_the_paper(width: int) -> None:
    table = torch.from_numpy(sinusoidal_table(300, width))
    angles = torch.arange(300.0, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    assert torch.allclose(table[:, 0::2], angles.sin().float(), atol=1e-4)
    assert torch.allclose(table[:, 1::2], angles.cos().float(), atol=1e-4)
    assert torch.equal(table[:50], torch.from_numpy(sinusoidal_table(50, width)))


def test_half_layout_is_a_permutation_of_the_interleaved_one() -> None:
    interleaved, half = (torch.from_numpy(sinusoidal_table(30, 16, half=half)) for half in (False, True))
    assert torch.equal(half, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1))
