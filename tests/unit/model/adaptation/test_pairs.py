"""The pairs that judge an adapted model are a tenth, always the same, and their sources are never trained on."""

from __future__ import annotations

import pytest

from model.adaptation.pairs import MOST_KEPT, Pair, split


def memory(count: int, documents: int) -> list[Pair]:
    """Pairs of which every source occurs twice, in other spellings, in `documents` documents of equal size."""
    words = [f"w{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}" for n in range(count // 2)]
    sources = [text for word in words for text in (f"The {word} 1", f"the {word.upper()}  22")]
    return [Pair(text, text, f"file {i * documents // count}") for i, text in enumerate(sources)]


@pytest.mark.parametrize(
    ("count", "documents", "kept"),
    [(100, 1, 10), (2_000, 1, 200), (2_000, 3, 200), (2_000, 50, 200), (30_000, 1, MOST_KEPT), (30_000, 20, MOST_KEPT)],
)
def test_the_tenth(count, documents, kept):
    pairs = memory(count, documents)
    training, judgement = split(pairs)
    assert len(judgement) == kept
    assert len(training) == count - kept  # the two spellings of a source stay together
    assert set(split(pairs[::-1])[1]) == set(judgement)
    spellings = [{pair.source.casefold().split()[1] for pair in part} for part in (training, judgement)]
    assert not spellings[0] & spellings[1]
    if documents == 50:
        assert not {pair.document for pair in training} & {pair.document for pair in judgement}


def test_terms_are_trained_on():
    terms = [Pair(f"term {n}", f"Begriff {n}", term=True) for n in range(500)]
    training, judgement = split([*terms, *memory(200, 1)])
    assert len(judgement) == 20 and set(terms) <= set(training)


def test_a_tenth_of_few_pairs_is_empty_and_no_pair_is_lost():
    pairs = memory(8, 1)
    assert split(pairs) == (pairs, [])
