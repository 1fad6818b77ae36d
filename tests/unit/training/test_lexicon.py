"""Tests of IBM model 1: translations are found by what stands together most consistently."""

from __future__ import annotations

import numpy as np
import pytest

from training.lexicon import Ids, Lexicon, learn_lexicon

VOCABULARY = 20
TAG = 0


def pairs(*both: tuple[list[int], list[int]]) -> list[tuple[Ids, Ids]]:
    return [(np.array(source), np.array(target)) for source, target in both]


def probability(lexicon: Lexicon, source: int, target: int) -> float:
    sources, targets, probabilities = lexicon
    return float(probabilities[(sources == source) & (targets == target)].sum())


def test_tokens_become_those_that_explain_all_pairs() -> None:
    lexicon = learn_lexicon(
        pairs(([1, 2], [11, 12]), ([1, 3], [11, 13]), ([2, 3], [13, 12])), VOCABULARY, iterations=20
    )
    for source in (1, 2, 3):
        assert probability(lexicon, source, source + 10) > 0.9


def test_the_tag_takes_targets_without_an_origin() -> None:
    some = [([TAG, 1], [11, 19]), ([TAG, 2], [12, 19]), ([TAG, 3], [13, 19])]
    lexicon = learn_lexicon(pairs(*some), VOCABULARY, iterations=20)
    assert probability(lexicon, TAG, 19) > 0.9
    assert probability(lexicon, 1, 11) > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_the_probabilities_of_a_source_add_up(seed: int) -> None:
    draw = np.random.default_rng(seed)
    some = [tuple(draw.integers(0, VOCABULARY, draw.integers(1, 9)).tolist() for _ in range(2)) for _ in range(30)]
    sources, targets, probabilities = learn_lexicon(pairs(*some), VOCABULARY)  # type: ignore[arg-type]
    totals = np.bincount(sources, probabilities, VOCABULARY)
    np.testing.assert_allclose(totals[totals > 0], 1.0)
    together = {(source, target) for one, other in some for source in one for target in other}
    assert set(zip(sources.tolist(), targets.tolist(), strict=True)) == together


def test_unlikely_entries_are_left_out() -> None:
    some = pairs(([1, 2], [11, 12]), ([1, 3], [11, 13]))
    everything, likely = learn_lexicon(some, VOCABULARY), learn_lexicon(some, VOCABULARY, 0.5)
    assert 0 < len(likely[0]) < len(everything[0]) and likely[2].min() >= 0.5
