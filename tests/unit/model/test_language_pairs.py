"""Tests of the pairs of models that translate between all of their languages."""

from __future__ import annotations

from model.language_pairs import AllPairs, targets_by_source
from model.model_folder import pairs_from_json, pairs_to_json


def test_all_pairs_are_those_of_two_different_languages() -> None:
    pairs = AllPairs(("de", "en", "fr"), ("de", "en"))
    assert list(pairs) == [("de", "en"), ("en", "de"), ("fr", "de"), ("fr", "en")]
    assert len(pairs) == 4
    assert all(pair in pairs for pair in pairs)
    for pair in (("de", "de"), ("de", "fr"), "de", ("de",)):
        assert pair not in pairs


def test_pairs_are_stored_without_a_list_of_them() -> None:
    codes = tuple(f"x{i}" for i in range(200))
    stored = pairs_to_json(AllPairs(codes, codes))
    assert pairs_from_json(stored) == AllPairs(codes, codes)
    assert sum(map(len, stored.values())) == 400
    listed = (("en", "de"), ("de", "en"))
    assert pairs_from_json(pairs_to_json(listed)) == listed


def test_the_targets_of_all_pairs_are_one_set() -> None:
    table = targets_by_source(AllPairs(("de", "en"), ("de", "en", "fr")))
    assert table["de"] is table["en"] == {"de", "en", "fr"}
    assert targets_by_source((("en", "de"), ("en", "fr"))) == {"en": {"de", "fr"}}
