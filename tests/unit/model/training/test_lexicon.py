"""Tests of IBM model 1: translations are found by what stands together most consistently."""

from __future__ import annotations

import numpy as np
import pytest

from model.training.lexicon import Lexicon, TokenPairs, learn_lexicon

VOCABULARY = 20
TAG = 0


def pairs(*both: tuple[list[int], list[int]]) -> TokenPairs:
    sides = list(zip(*both, strict=True))
    ids = [np.array([token for one in side for token in one], dtype=np.int64) for side in sides]
    lengths = [np.array([len(one) for one in side], dtype=np.int64) for side in sides]
    return TokenPairs(ids[0], ids[1], lengths[0], lengths[1])


def probability(lexicon: Lexicon, source: int, target: int) -> float:
    found = (lexicon.sources == source) & (lexicon.targets == target)
    return float(lexicon.probabilities[found].sum())


def test_tokens_become_those_that_explain_all_pairs() -> None:
    lexicon = learn_lexicon(pairs(([1, 2], [11, 12]), ([1, 3], [11, 13]), ([2, 3], [13, 12])), VOCABULARY, 20)
    for source in (1, 2, 3):
        assert probability(lexicon, source, source + 10) > 0.9


def test_the_tag_takes_targets_without_an_origin() -> None:
    some = [([TAG, 1], [11, 19]), ([TAG, 2], [12, 19]), ([TAG, 3], [13, 19])]
    lexicon = learn_lexicon(pairs(*some), VOCABULARY, 20)
    assert probability(lexicon, TAG, 19) > 0.9
    assert probability(lexicon, 1, 11) > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_the_probabilities_of_a_source_add_up(seed: int) -> None:
    draw = np.random.default_rng(seed)
    some = [tuple(draw.integers(0, VOCABULARY, draw.integers(1, 9)).tolist() for _ in range(2)) for _ in range(30)]
    lexicon = learn_lexicon(pairs(*some), VOCABULARY, 3)  # type: ignore[arg-type]
    totals = np.bincount(lexicon.sources, lexicon.probabilities, VOCABULARY)
    np.testing.assert_allclose(totals[totals > 0], 1.0)
    together = {(source, target) for sources, targets in some for source in sources for target in targets}
    assert set(zip(lexicon.sources.tolist(), lexicon.targets.tolist(), strict=True)) == together


def test_unlikely_entries_are_left_out() -> None:
    lexicon = Lexicon(np.array([1, 1, 2]), np.array([5, 6, 5]), np.array([0.9, 0.1, 1.0])).likely(0.5)
    assert (lexicon.sources.tolist(), lexicon.targets.tolist()) == ([1, 2], [5, 5])
