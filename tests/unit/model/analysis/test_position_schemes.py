"""The formulas of rotary positions, of ALiBi and of a restricted neighbourhood."""

from __future__ import annotations

import math

import numpy as np
import pytest

from model.analysis.position_schemes import alibi, restricted, rotary, schemes, softmax
from model.config import ModelConfig


@pytest.mark.parametrize("width", [2, 16, 64])
def test_rotary_products_depend_on_the_distance_only(width: int) -> None:
    query, key = np.random.default_rng(width).normal(size=(2, width)).astype(np.float32)
    queries, keys = rotary(np.tile(query, (20, 1))), rotary(np.tile(key, (20, 1)))
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), np.linalg.norm(query), rtol=1e-5)
    products = queries @ keys.T
    for distance in range(-19, 20):
        np.testing.assert_allclose(np.diagonal(products, distance), np.diagonal(products, distance)[0], atol=1e-4)
    x, y, angle = query[-2], query[-1], 7 / 10000 ** ((width - 2) / width)
    turned = [x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)]
    np.testing.assert_allclose(queries[7, -2:], turned, atol=1e-6)


@pytest.mark.parametrize("heads", [1, 6, 8])
def test_alibi_takes_the_slope_times_the_distance(heads: int) -> None:
    biases = alibi(heads, 9)
    for head in range(heads):
        expected = [[-(2 ** (-8 * (head + 1) / heads)) * abs(i - j) for j in range(9)] for i in range(9)]
        np.testing.assert_allclose(biases[head], expected, rtol=1e-6)
    assert (np.diff(softmax(biases[:, 0]).max(axis=1)) <= 0).all()  # the first head looks nearest


@pytest.mark.parametrize(("n", "r"), [(12, 1), (12, 3), (12, 4), (12, 40)])
def test_a_restricted_neighbourhood_has_r_positions_and_long_paths(n: int, r: int) -> None:
    seen = np.isfinite(restricted(n, r))
    assert all(seen[i, j] == (-(r // 2) <= j - i < r - r // 2) for i in range(n) for j in range(n))
    assert r > n or (seen.sum(axis=1).max() == r and seen.diagonal().all())
    if r > 2:
        layers = math.ceil((n - 1) / ((r - 1) // 2))
        reached = [np.linalg.matrix_power(seen.astype(float), count) > 0 for count in (layers, 1)]
        assert reached[0].all() and (reached[1].all() == (r > n))


def test_all_schemes_have_numbers_for_each_position() -> None:
    found = schemes(ModelConfig(vocab_size=10, d_model=24, heads=2), 7, 3)
    assert list(found) == ["sinusoidal", "learned", "rope", "alibi", "restricted"]
    for scheme in found.values():
        assert scheme.cells.shape == (7, len(scheme.columns)) and scheme.curves.shape[1] == 7
        assert np.isfinite(scheme.cells).all() and len(set(scheme.columns)) == len(scheme.columns)
    np.testing.assert_allclose(found["restricted"].cells.sum(axis=1), 1, rtol=1e-6)
