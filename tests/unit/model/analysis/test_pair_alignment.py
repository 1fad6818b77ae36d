"""Tests of word alignment of sentence pairs: posteriors, symmetry and the use of each kind of evidence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from model.analysis.pair_alignment import (
    WordedSentence,
    WordEvidence,
    WordReading,
    alignment_probabilities,
    check_words,
    fit,
    links,
    posteriors,
    word_evidence,
)
from model.config import ModelConfig

scores = st.tuples(st.integers(1, 7), st.integers(1, 7)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-30, 30, width=32))
)


def evidence(similarity: np.ndarray) -> WordEvidence:
    """Returns evidence with the given similarity and the same low dictionary scores for all words."""
    unknown = np.full(similarity.shape, -9, dtype=np.float32)
    return WordEvidence(similarity.astype(np.float32), unknown, unknown)


@given(scores)
def test_posteriors_are_probabilities_of_the_hidden_words(found: np.ndarray) -> None:
    probabilities = posteriors(found)
    assert probabilities.shape == found.shape
    np.testing.assert_allclose(probabilities.sum(axis=0), 1, atol=1e-5)


@given(scores)
def test_alignment_is_symmetric_in_the_two_sentences(similarity: np.ndarray) -> None:
    first, second = [f"a{i}" for i in range(similarity.shape[0])], [f"b{i}" for i in range(similarity.shape[1])]
    known = np.tanh(similarity)
    even = np.ones_like(known)
    there = alignment_probabilities(WordEvidence(known, -similarity, similarity), even, first, second)
    back = alignment_probabilities(WordEvidence(known.T, similarity.T, -similarity.T), even.T, second, first)
    np.testing.assert_allclose(there, back.T, atol=1e-5)


def test_similar_words_are_linked_in_reversed_order() -> None:
    similarity = np.fliplr(np.eye(4))
    assert set(links(alignment_probabilities(evidence(similarity), np.ones((4, 4)), list("abcd"), list("wxyz")))) == {
        (0, 3), (1, 2), (2, 1), (3, 0),
    }  # fmt: skip


def test_word_order_decides_without_other_evidence() -> None:
    found = alignment_probabilities(evidence(np.zeros((5, 5))), np.ones((5, 5)), list("abcde"), list("vwxyz"))
    np.testing.assert_array_equal(found.argmax(axis=0), range(5))


def test_attention_decides_without_other_evidence() -> None:
    attention = np.fliplr(np.eye(3))
    found = fit(evidence(np.zeros((3, 3))), attention, list("abc"), list("xyz"))
    np.testing.assert_array_equal(found.argmax(axis=0), [2, 1, 0])


def test_similar_spelling_links_names_and_punctuation_links_to_punctuation() -> None:
    found = fit(evidence(np.zeros((3, 2))), np.ones((3, 2)), ["Zoë", "1975", "."], ["zoe", ","])
    assert found[0, 0] > found[1, 0] > found[2, 0]
    assert found[2, 1] > found[0, 1]


def test_a_sentence_without_words_has_no_links() -> None:
    nothing = evidence(np.zeros((0, 3)))
    assert links(alignment_probabilities(nothing, np.zeros((0, 3)), [], list("abc"))) == {}


def test_states_are_averaged_over_each_word_and_centred() -> None:
    one, other = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    shared = np.array([0.0, 0.0, 5.0])
    states = np.stack([shared, shared + 2 * one, shared, shared + other])[None].astype(np.float32)
    sentence = WordedSentence((9, 5, 6, 7), ((1, 3), (3, 4)))
    reading = WordReading(states, np.zeros((2, 2), dtype=np.float32))
    np.testing.assert_allclose(
        word_evidence(sentence, sentence, reading, reading).similarity, [[1, -1], [-1, 1]], atol=1e-6
    )
    assert sentence.beginnings == (5, 7)


def test_words_outside_their_sentence_are_refused() -> None:
    config = ModelConfig(vocab_size=10, max_length=8)
    check_words(config, WordedSentence((1, 2), ((0, 2),)), (9,))
    with pytest.raises(ValueError, match="tokens"):
        check_words(config, WordedSentence((1,) * 9, ()), ())
