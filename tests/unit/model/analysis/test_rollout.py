"""Invariants of attention rollout."""

from __future__ import annotations

import numpy as np
import pytest

from model.analysis.contributions import rollout

pytestmark = pytest.mark.numeric


def softmax(rng: np.random.Generator, *shape: int) -> np.ndarray:
    weights = np.exp(rng.normal(size=shape)).astype(np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


def test_rollout_sums_to_one_and_is_causal() -> None:
    rng = np.random.default_rng(3)
    decoder = np.tril(softmax(rng, 2, 4, 5, 5))
    decoder /= decoder.sum(axis=-1, keepdims=True)
    found = rollout(softmax(rng, 3, 4, 7, 7), decoder, softmax(rng, 2, 4, 5, 7))
    np.testing.assert_allclose(found.encoder.sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(
        found.decoder.sum(axis=-1) + found.cross.sum(axis=-1), 1.0, atol=1e-5
    )
    assert not np.triu(found.decoder, 1).any()
