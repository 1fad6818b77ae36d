"""Tests of word alignment from attention: words, word weights, links and the choice of heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.analysis.attention_alignment import (
    FILE,
    AlignmentLayer,
    Word,
    agreement,
    alignment_map,
    between_words,
    chosen_alignment,
    coverage,
    reading_map,
    to_words,
    words,
)
from model.analysis.types import ALIGNMENT, AttentionMaps

WORDS = (
    "It|'s| |3.5| |o'clock|,| |is|n't| |it|?",
    "I|'ve| |cost| |1,000.50| |€|:| |Anna|'s| |well|-|known| |do|n’t| |ca|n't",
    "L'|eau| |d’|aujourd'hui|,| |qu'|il| |n'|a| |quelqu'|un| |souvenons|-|nous| |jusqu'|à",
    "Mr.| |Speaker|,| |the| |hon.| |member| |of| |the| |U.S.| |and| |J.| |Smith|.",
    "Geht|'s| |um| |3|?| |dell'|arte| |c'|è|.",
    "猫|が|眠|る|。",
)
"""Texts as people cut them into words; spaces are no words."""


def pieces_of(text: str, size: int) -> tuple[list[str], list[tuple[int, int]]]:
    """Returns a tag, pieces of `size` characters and the end of sentence, with the offset of
    each."""
    spans = [(i, min(i + size, len(text))) for i in range(0, len(text), size)]
    return (
        [">>de<<", *(text[start:end] for start, end in spans), "</s>"],
        [(0, 0), *spans, (len(text), len(text))],
    )


@given(st.text(max_size=40), st.integers(1, 5))
def test_every_piece_belongs_to_exactly_one_word(text: str, size: int) -> None:
    pieces, offsets = pieces_of(text, size)
    found = words(text, pieces, offsets)
    assert [place for word in found for place in word.pieces] == list(range(len(pieces)))
    assert found[0].special and found[-1].special
    assert all(text[word.start : word.end] == word.text for word in found if not word.special)


def test_a_space_piece_belongs_to_the_next_word() -> None:
    pieces = ["\u2581", "a", "\u2581", "b", "\u2581", "</s>"]
    found = words("a b", pieces, [(0, 0), (0, 1), (1, 1), (2, 3), (3, 3), (3, 3)])
    assert [(word.text, word.pieces) for word in found] == [
        ("a", (0, 1)),
        ("b", (2, 3)),
        ("\u2581", (4,)),
        ("</s>", (5,)),
    ]


@pytest.mark.parametrize("cut", WORDS)
def test_words_are_cut_as_people_cut_them(cut: str) -> None:
    parts = cut.split("|")
    pieces, offsets = pieces_of("".join(parts), 1)
    found = words("".join(parts), pieces, offsets)
    assert [word.text for word in found if not word.special and word.text != " "] == [
        p for p in parts if p != " "
    ]


def test_word_weights_are_summed_over_keys_and_averaged_over_queries() -> None:
    maps = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]], dtype=np.float32)
    joined = to_words(
        maps, [Word("ab", 0, 2, (0, 1))], [Word("x", 0, 1, (0,)), Word("yz", 1, 3, (1, 2))]
    )
    np.testing.assert_allclose(joined, [[0.3, 0.7]], atol=1e-6)


def test_only_words_with_text_are_compared() -> None:
    pieces, offsets = pieces_of("ab", 1)
    source = target = tuple(
        Word(p, s, e, (i,)) for i, (p, (s, e)) in enumerate(zip(pieces, offsets, strict=True))
    )
    soft = np.array(
        [[0.9, 0.1, 0.0, 0.0], [0.5, 0.1, 0.3, 0.1], [0.0, 0.6, 0.2, 0.2], [0, 0, 0, 1]],
        dtype=np.float32,
    )
    np.testing.assert_allclose(between_words(soft, source, target), [[0.1, 0.6], [0.3, 0.2]])
    np.testing.assert_allclose(coverage(soft, source, target), [0.5, 0.7, 0.5, 0.3], atol=1e-6)
    assert agreement(soft, source, target) == 2
    assert agreement(soft[:, [0, 1, 1, 3]], source, target[:3]) == 1
    assert between_words(soft, (), target).size == 0 and agreement(soft, source[:1], target) == 0


def test_a_soft_alignment_has_the_shares_of_a_layer_in_the_row_of_the_next_step() -> None:
    cross = np.random.default_rng(0).dirichlet(np.ones(2), size=(2, 2, 3)).astype(np.float32)
    products = np.ones((2, 2, 2, 2), dtype=np.float32)  # (L, S, H, H)
    products[1, 1] *= 9  # vectors three times as long
    maps = AttentionMaps(cross, cross, cross, cross, cross, cross, products)
    summed = cross[1].sum(axis=0) * [1, 3]
    plain = alignment_map(maps, AlignmentLayer(1))
    np.testing.assert_allclose(plain, summed / summed.sum(axis=-1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(
        alignment_map(maps, AlignmentLayer(1, shift=True)), plain[[1, 2, 2]]
    )
    read = (cross[0].mean(axis=0)[[1, 2, 2]] + cross[1].mean(axis=0)) / 2
    np.testing.assert_allclose(reading_map(maps, AlignmentLayer(0, shift=True)), read, rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "length"), [(1, 1), (1, 3), (7, 5), (299, 301), (512, 3), (2, 512)]
)
def test_a_long_soft_alignment_is_that_of_one_step_to_the_bit_in_short_steps(
    rows: int, length: int
) -> None:
    rng = np.random.default_rng(rows)
    cross = rng.dirichlet(np.ones(length), size=(2, 4, rows)).astype(np.float32)
    values = rng.standard_normal((2, length, 4, 8)).astype(np.float32)
    products = values @ values.transpose(0, 1, 3, 2)
    maps = AttentionMaps(cross, cross, cross, cross, cross, cross, products)
    choice = AlignmentLayer(1, shift=True).chosen(ALIGNMENT, reading=True)
    steps, pauses = chosen_alignment(maps, choice), 0
    try:
        while True:
            next(steps)
            pauses += 1
    except StopIteration as end:
        found = end.value
    assert np.array_equal(found.soft, alignment_map(maps, AlignmentLayer(1, shift=True)))
    assert np.array_equal(found.reading, reading_map(maps, AlignmentLayer(1, shift=True)))
    assert (rows * length > 1 << 16) == (pauses > 0)


def test_the_layer_is_loaded_from_the_model_folder(tmp_path: Path) -> None:
    assert AlignmentLayer.load(tmp_path, layers=6) == AlignmentLayer(4)
    (tmp_path / FILE).write_text('{"heads": [{"layer": 1, "head": 3, "shift": true}]}')
    assert AlignmentLayer.load(tmp_path, layers=3) == AlignmentLayer(2)
    (tmp_path / FILE).write_text(AlignmentLayer(1, shift=True).to_json())
    assert AlignmentLayer.load(tmp_path, layers=6) == AlignmentLayer(1, shift=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"layer": 6}',
        '{"layer": -1}',
        '{"layer": "1"}',
        '{"layer": 1, "shift": 1}',
        '{"head": 1}',
        "{",
        "[]",
    ],
)
def test_another_layer_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=r"alignment\.json does not name a layer of the model"):
        AlignmentLayer.load(tmp_path, layers=6)
