"""Attention weights as JSON have five correct decimals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from server.inspection.json_weights import in_unit_interval, nested_lists


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 4, 5), (1, 2, 1, 7), (3, 1, 2, 1)])
def test_json_equals_the_weights_to_five_decimals(shape: tuple[int, int, int, int]) -> None:
    weights = np.random.default_rng(1).random(shape, dtype=np.float32)
    read = np.array(json.loads(nested_lists(weights)))
    assert read.shape == shape
    assert np.abs(read - weights).max() <= 0.5e-5 + 1e-7


def test_bounds_and_all_digits_are_exact() -> None:
    weights = np.array([0.0, 1.0, 1.000001, -1e-9, 0.5, 0.12345, 0.98765, 0.00001, 0.99999], dtype=np.float32)
    assert in_unit_interval(weights)
    read = json.loads(nested_lists(weights.reshape(1, 1, 1, -1)))[0][0][0]
    assert read == [0.0, 1.0, 1.0, 0.0, 0.5, 0.12345, 0.98765, 0.00001, 0.99999]


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.1, 1.1])
def test_values_outside_the_unit_interval_are_detected(value: float) -> None:
    assert not in_unit_interval(np.array([0.5, value], dtype=np.float32))
