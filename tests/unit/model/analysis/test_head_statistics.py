"""Tests of head statistics on attention maps with known results.

Sums of float32 weights promise 1e-5.
"""

from __future__ import annotations

import numpy as np
import pytest

from model.analysis.head_roles import diagonality, entropy, head_figures
from model.analysis.types import Kind

pytestmark = pytest.mark.numeric


def test_entropy_is_zero_for_one_key_and_log2_k_for_uniform_weights() -> None:
    maps = np.stack([np.eye(8, dtype=np.float32), np.full((8, 8), 1 / 8, dtype=np.float32)])
    np.testing.assert_allclose(entropy(maps), [[0.0] * 8, [3.0] * 8], atol=1e-5)


def test_diagonality_is_one_on_the_diagonal_and_zero_for_a_uniform_map() -> None:
    assert diagonality(np.eye(50, dtype=np.float32)) == pytest.approx(1.0)
    assert diagonality(np.full((400, 400), 1 / 400, dtype=np.float32)) == pytest.approx(
        0.0, abs=0.01
    )
    assert diagonality(np.eye(50, dtype=np.float32)[::-1]) < 0


@pytest.mark.parametrize(
    ("weights", "kind", "role"),
    [
        (np.eye(9), "encoder", "same"),
        (np.eye(9, k=-1), "encoder", "previous"),
        (np.eye(9, k=1), "encoder", "next"),
        (np.tile(np.eye(9)[8], (9, 1)), "encoder", "end"),
        (np.tile(np.eye(9)[0], (9, 1)), "cross", "start"),
        (np.full((9, 9), 1 / 9), "encoder", "broad"),
        (np.eye(9), "decoder", "previous"),
        (np.eye(9, k=-1), "decoder", "before_previous"),
    ],
)
def test_role_of_each_pattern(weights: np.ndarray, kind: Kind, role: str) -> None:
    assert head_figures(weights.astype(np.float32)[None, None], kind)[0][0].role == role
