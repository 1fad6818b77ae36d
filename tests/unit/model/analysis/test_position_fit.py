"""The place of a word is read where the vectors have it, and not where they do not."""

from __future__ import annotations

import numpy as np

from model.analysis.position_fit import position_fit


def sentences(width: int = 48) -> tuple[np.random.Generator, list[np.ndarray], list[np.ndarray]]:
    chance = np.random.default_rng(3)
    places = [np.arange(1, 1 + length) for length in chance.integers(6, 16, 24)]
    return chance, [chance.standard_normal((len(each), width)).astype(np.float32) for each in places], places


def test_a_place_that_is_in_the_vectors_is_read() -> None:
    _, noise, places = sentences()
    direction = np.linspace(1, 2, 48, dtype=np.float32)
    vectors = [x + each[:, None] * direction for x, each in zip(noise, places, strict=True)]
    assert position_fit(vectors, places) > 0.95


def test_vectors_without_the_place_explain_nothing() -> None:
    _, noise, places = sentences()
    assert position_fit(noise, places) < 0.2


def test_wide_vectors_are_not_learned_by_heart() -> None:
    _, noise, places = sentences(width=1024)
    assert position_fit(noise, places) < 0.2
