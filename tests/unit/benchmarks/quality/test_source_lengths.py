"""Pairs are grouped by the length of their source, and longer sources are made of neighbouring sentences."""

from benchmarks.common.development_sets import DevelopmentSet
from benchmarks.quality.source_lengths import by_length, joined


def test_pairs_are_grouped_by_the_length_of_their_source() -> None:
    pairs = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]
    assert by_length(pairs, [11, 10, 20, 401]) == {"1 to 10": [("b", "B")], "11 to 20": [("a", "A"), ("c", "C")]}


def test_long_sources_are_neighbouring_sentences_with_their_references() -> None:
    item = DevelopmentSet("set", "en", "de", ("one", "two", "three"), ("eins", "zwei", "drei"))
    found = list(joined(item, (1, 2)))
    assert found == [("one", "eins"), ("two", "zwei"), ("three", "drei"), ("one two", "eins zwei"), ("three", "drei")]
