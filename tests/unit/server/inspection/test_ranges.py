"""Errors for numbers that name nothing, also where there is one number to choose, or none."""

from __future__ import annotations

import pytest

from server.inspection.types import out_of_range


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (3, "", "sentence must be between 0 and 2 for this translation."),
        (1, "", "sentence must be 0: this translation has one sentence."),
        (1, "row", "sentence must be 0: this translation has one row."),
        (0, "", "This translation has no sentence."),
    ],
)
def test_the_error_says_which_numbers_there_are(count, noun, said):
    assert out_of_range("sentence", count, "this translation", noun).message == said
