"""Comparison of translations that PyTorch computed in different batches or on different
processors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from model.search.options import Hypothesis


def assert_same_up_to_ties(
    left: Sequence[Hypothesis], right: Sequence[Hypothesis], tolerance: float
) -> None:
    """Asserts that hypotheses are equal. Where tokens differ, the two choices must be a tie: their
    scores are within the tolerance, so that a difference in the last digit of a sum may have
    decided."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        if one.tokens == other.tokens:
            assert one.token_scores == pytest.approx(other.token_scores, abs=tolerance)
            assert one.finish_reason == other.finish_reason
            continue
        equal = 0
        while one.tokens[equal : equal + 1] == other.tokens[equal : equal + 1]:
            equal += 1
        until = slice(equal + 1)  # with the first tokens that differ
        greedy_tie = one.token_scores[until] == pytest.approx(
            other.token_scores[until], abs=tolerance
        )
        assert greedy_tie or one.score == pytest.approx(other.score, abs=tolerance)
