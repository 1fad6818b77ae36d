"""Tests of word alignment of sentence pairs: posteriors, symmetry and the use of each kind of
evidence."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from model.analysis.pair_alignment import (
    EMPTY,
    JUMP,
    JUMP_ALONE,
    PairWords,
    WordedSentence,
    WordEvidence,
    check_runs,
    compared,
    fit,
    links,
    posteriors,
    spellings,
    word_links,
)
from tests.support.engine.fake_engine import returned

scores = st.tuples(st.integers(1, 7), st.integers(1, 7)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-30, 30, width=32))
)


def evidence(similarity: np.ndarray) -> WordEvidence:
    """Returns evidence with the given similarity and the same low dictionary scores for all
    words."""
    unknown = np.full(similarity.shape, -9, dtype=np.float32)
    return WordEvidence(similarity.astype(np.float32), unknown, unknown)


def pair(first: list[str], second: list[str]) -> PairWords:
    """Words of one token each."""
    marks, genitives, alike = compared(first, second)
    runs = [tuple((i, i + 1) for i in range(len(side))) for side in (first, second)]
    return PairWords((runs[0], runs[1]), marks, alike, genitives=genitives)


def probabilities(
    known: WordEvidence | None, attention: np.ndarray, words: PairWords
) -> np.ndarray:
    emitted = fit(words, known, attention.astype(np.float32))
    there, back = returned(posteriors([emitted, emitted.T], [JUMP if known else JUMP_ALONE] * 2))
    return (there + back.T) / 2


@given(st.integers(1, 3), st.integers(1, 4), st.randoms(use_true_random=False))
def test_posteriors_are_those_of_all_paths(n: int, m: int, random: Random) -> None:
    found = np.array(
        [[random.uniform(-12, 0) for _ in range(m)] for _ in range(n)], dtype=np.float32
    )
    [computed] = returned(posteriors([found], [JUMP]))
    np.testing.assert_allclose(computed, _by_paths(found), atol=1e-5)


@given(
    st.lists(scores, min_size=2, max_size=6),
    st.sampled_from([JUMP, JUMP_ALONE]),
    st.integers(0, 40),
)
def test_posteriors_do_not_depend_on_the_other_pairs(
    pairs: list[np.ndarray], jump: float, more: int
) -> None:
    # longer than the others, perhaps in another batch
    wide = np.pad(pairs[0], ((0, more), (0, 3 * more)), mode="edge")
    together = returned(posteriors([*pairs, wide], [jump] * (len(pairs) + 1)))
    for alone, found in zip([*pairs, wide], together, strict=True):
        assert np.array_equal(returned(posteriors([alone], [jump]))[0], found)


def test_long_pairs_let_other_work_run_between() -> None:
    assert not list(posteriors([np.zeros((20, 20), dtype=np.float32)] * 8, [JUMP] * 8))
    assert len(list(posteriors([np.zeros((300, 300), dtype=np.float32)], [JUMP]))) >= 5


def _by_paths(found: np.ndarray) -> np.ndarray:
    """The posteriors, summed over every choice of a hidden word (-1 for the empty word) for each
    observed word."""
    n, m = found.shape
    sums, everything = np.zeros((n, m)), 0.0
    for path in product(range(-1, n), repeat=m):
        weight, last = 1.0, -1
        for t, place in enumerate(path):
            if place < 0:
                weight *= np.exp(EMPTY)
                continue
            moves = [(1 + abs(each - last - 1)) ** -JUMP for each in range(n)]
            weight *= moves[place] / sum(moves) * np.exp(float(found[place, t]))
            last = place
        everything += weight
        for t, place in enumerate(path):
            if place >= 0:
                sums[place, t] += weight
    return sums / everything


@given(scores)
def test_alignment_is_symmetric_in_the_two_sentences(similarity: np.ndarray) -> None:
    first, second = (
        [f"a{i}" for i in range(similarity.shape[0])],
        [f"b{i}" for i in range(similarity.shape[1])],
    )
    known = np.tanh(similarity)
    none = np.zeros_like(known)  # attention has a direction
    there = probabilities(WordEvidence(known, -similarity, similarity), none, pair(first, second))
    back = probabilities(
        WordEvidence(known.T, similarity.T, -similarity.T), none.T, pair(second, first)
    )
    np.testing.assert_allclose(there, back.T, atol=1e-5)


@pytest.mark.parametrize(
    ("similarity", "attention", "best"),
    [
        (np.fliplr(np.eye(4)), np.ones((4, 4)), [3, 2, 1, 0]),
        (np.zeros((5, 5)), np.ones((5, 5)), [0, 1, 2, 3, 4]),  # the order of the words
        (np.zeros((3, 3)), np.fliplr(np.eye(3)), [2, 1, 0]),
    ],
)
def test_words_are_linked_by_similarity_then_attention_then_order(
    similarity: np.ndarray, attention: np.ndarray, best: list[int]
) -> None:
    count = len(best)
    found = probabilities(
        evidence(similarity), attention, pair(list("abcde")[:count], list("vwxyz")[:count])
    )
    assert found.argmax(axis=0).tolist() == best


def test_similar_spelling_links_names_and_punctuation_links_to_punctuation() -> None:
    found = fit(
        pair(["Zoë", "1975", "."], ["zoe", ","]), evidence(np.zeros((3, 2))), np.ones((3, 2))
    )
    assert found[0, 0] > found[1, 0] > found[2, 0]
    assert found[2, 1] > found[0, 1]
    alike = fit(pair(["parliament", "parole", "pa", "1976"], ["parlement"]), None, np.ones((4, 1)))[
        :, 0
    ]
    assert alike[0] > alike[1] > alike[2] == alike[3]


def test_a_word_that_nothing_fits_has_no_link() -> None:
    similarity = np.array([[1, -1, -1], [-1, -1, 1]])
    same = similarity > 0
    known = np.where(same, 0.0, -9.0).astype(np.float32)
    attention = np.where(same, 1.0, 0.0)
    attention[:, 1] = 0.5
    known[:, 1] = -9
    found = probabilities(
        WordEvidence(similarity.astype(np.float32), known, known),
        attention,
        pair(list("ab"), list("xyz")),
    )
    assert (found[:, 1] < 0.1).all()
    assert linked(found) == {(0, 0), (1, 2)}


@pytest.mark.parametrize("known", [True, False])
def test_attention_links_words_with_and_without_other_evidence(known: bool) -> None:
    attention = np.eye(4)[[1, 0, 3, 2]] * 0.9 + 0.025
    found = probabilities(
        evidence(np.zeros((4, 4))) if known else None, attention, pair(list("abcd"), list("wxyz"))
    )
    assert linked(found) == {(0, 1), (1, 0), (2, 3), (3, 2)}


def test_less_is_needed_for_a_link_beside_another() -> None:
    found = np.array([[0.9, 0.4, 0.4], [0.4, 0.1, 0.0], [0.0, 0.0, 0.4]])
    assert linked(found) == {(0, 0), (0, 1), (1, 0)}


def test_a_certain_word_without_a_link_is_linked_beside_its_other_part() -> None:
    found = np.array([[0.5, 0.0, 0.9, 0.0, 0.0, 0.5], [0.0, 0.9, 0.0, 0.9, 0.9, 0.0]])
    assert {(i, j) for i, j, _ in links(found, found == 0.5)} - linked(found) == {(0, 0), (0, 5)}
    apart = np.array([[0.5, 0.0, 0.0, 0.0, 0.9], [0.0, 0.9, 0.9, 0.9, 0.0]])
    assert {(i, j) for i, j, _ in links(apart, apart == 0.5)} == linked(apart)


def test_a_genitive_is_linked_by_strong_evidence_only() -> None:
    words = pair(["Peter", "'s", "car"], ["la", "voiture", "Peter"])
    similarity = np.array([[0.0, 0.0, 0.9], [0.4, 0.0, 0.0], [0.0, 0.9, 0.0]])
    soft = np.full((4, 4), 0.1, dtype=np.float32)
    [found] = returned(word_links([(words, evidence(similarity), soft)]))
    assert 1 not in {i for i, _, _ in found}
    similarity[1, 0] = 1.6
    [found] = returned(word_links([(words, evidence(similarity), soft)]))
    assert (1, 0) in {link[:2] for link in found}


@pytest.mark.parametrize(("first", "second"), [([], list("abc")), (list("abc"), []), ([], [])])
def test_a_sentence_without_words_has_no_links(first: list[str], second: list[str]) -> None:
    nothing = evidence(np.zeros((len(first), len(second))))
    soft = np.ones((5, 4), dtype=np.float32)
    pairs = [(pair(first, second), known, soft) for known in (nothing, None)]
    assert returned(word_links(pairs)) == [(), ()]


def test_weights_of_tokens_become_those_of_words() -> None:
    """Sums over the tokens of a source word, averages over those of a target word."""
    runs = ((1, 2), (2, 4)), ((0, 2), (3, 4))
    words = PairWords(runs, ((), ()), ())
    soft = np.zeros((5, 5), dtype=np.float32)
    soft[0, 3] = soft[1, 2] = soft[3, 1] = 1.0
    assert {link[:2] for link in returned(word_links([(words, None, soft)]))[0]} == {(1, 0), (0, 1)}


@pytest.mark.parametrize(
    "words",
    [
        PairWords((((0, 9),), ()), ((), ()), ()),
        PairWords((((0, 2), (1, 3)), ()), ((), ()), ()),
        PairWords((((1, 1),), ()), ((), ()), ()),
        PairWords(((), ((-1, 1),)), ((), ()), ()),
        PairWords((((0, 1),), ()), ((1,), ()), ()),
        PairWords((((0, 1),), ()), ((), ()), (), genitives=((), (0,))),
        PairWords((((0, 1),), ()), ((), ()), ((0, 0, 1.0),)),
        PairWords(
            (((0, 1),), ()),
            ((), ()),
            (),
            (WordedSentence((1,), (), ()), WordedSentence((1,), (), ())),
        ),
    ],
)
def test_words_outside_their_sentences_are_refused(words: PairWords) -> None:
    with pytest.raises(ValueError, match=r"word|alike|mark"):
        check_runs(words, (4, 4))


def linked(found: np.ndarray) -> set[tuple[int, int]]:
    return {(i, j) for i, j, _ in links(found, found > 2)}


def test_spellings_differ_in_the_first_letter_only() -> None:
    assert spellings(["été", "NATO", "7", "Haus"]) == [
        "été",
        "nATO",
        "7",
        "haus",
        "Été",
        "NATO",
        "7",
        "Haus",
    ]
