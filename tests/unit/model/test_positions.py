"""Tests of positional encodings: sinusoidal (section 3.5 of the paper).

Tables promise equal bits where rows are only selected, else the error of float32 sines (1e-4 at most).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
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


def shift_matrix(offset: int, width: int) -> torch.Tensor:
    """Returns T_k with PE(pos + offset) = T_k @ PE(pos) for every pos, (width, width) in float64."""
    matrix = torch.zeros(width, width, dtype=torch.float64)
    for i in range(width // 2):
        angle = offset / 10000 ** (2 * i / width)
        pair = slice(2 * i, 2 * i + 2)
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[pair, pair] = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
    return matrix


@pytest.mark.parametrize("offset", [0, 1, 7, 100, -3])
@pytest.mark.parametrize("width", [2, 64, 512])
def test_shift_is_one_linear_map_for_all_positions(offset: int, width: int) -> None:
    table = torch.from_numpy(sinusoidal_table(300, width)).double()
    start = max(0, -offset)
    here = table[start : 300 - max(0, offset)]
    there = table[start + offset : start + offset + here.shape[0]]
    assert torch.allclose(here @ shift_matrix(offset, width).T, there, atol=1e-4)


def test_positions_are_unique_bounded_deterministic_and_independent_of_the_length() -> None:
    table = sinusoidal_table(2000, 64)
    assert np.abs(table).max() <= 1
    assert len({tuple(row) for row in table.tolist()}) == 2000
    assert np.array_equal(table, sinusoidal_table(2000, 64))
    assert np.array_equal(table[:50], sinusoidal_table(50, 64))


def test_products_of_positions_depend_on_the_distance_symmetrically_and_decay() -> None:
    table = torch.from_numpy(sinusoidal_table(400, 512)).double()
    products = table @ table.T
    by_distance = products[200, 200:].tolist()
    for position in (50, 200, 300):
        assert products[position, position:][:50].tolist() == pytest.approx(by_distance[:50], abs=1e-2)
        assert products[position, position - 49 : position + 1].flip(0).tolist() == pytest.approx(
            by_distance[:50], abs=1e-2
        )
    assert by_distance[0] == pytest.approx(256, abs=1e-3)
    assert all(near > far for near, far in itertools.pairwise(by_distance[:6]))
    means = [sum(by_distance[start : start + 40]) / 40 for start in range(0, 200, 40)]
    assert means == sorted(means, reverse=True)


def test_half_layout_is_a_permutation_of_the_interleaved_one() -> None:
    interleaved, half = (torch.from_numpy(sinusoidal_table(30, 16, half=half)) for half in (False, True))
    assert torch.equal(half, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1))
