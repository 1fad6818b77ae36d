"""Tests of word alignment from attention: words, word weights, links and the choice of heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.analysis.attention_alignment import (
    FILE,
    AlignmentChoice,
    AlignmentHead,
    Word,
    alignment_map,
    coverage,
    target_to_source,
    to_words,
    words,
)

TEXT = "It's 3.5 o'clock, isn't it?"


def pieces_of(text: str, size: int) -> tuple[list[str], list[tuple[int, int]]]:
    """Returns a tag, pieces of `size` characters and the end of sentence, with the offset of each."""
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


def test_words_of_a_sentence() -> None:
    pieces, offsets = pieces_of(TEXT, 1)
    assert [word.text for word in words(TEXT, pieces, offsets) if not word.special] == [
        "It's",
        "3",
        ".",
        "5",
        "o'clock",
        ",",
        "isn't",
        "it",
        "?",
    ]


def test_characters_of_scripts_without_spaces_are_words() -> None:
    pieces, offsets = pieces_of("猫が眠る", 1)
    assert [word.text for word in words("猫が眠る", pieces, offsets)] == [">>de<<", "猫", "が", "眠", "る", "</s>"]


def test_word_weights_are_summed_over_keys_and_averaged_over_queries() -> None:
    maps = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]], dtype=np.float32)
    joined = to_words(maps, [Word("ab", 0, 2, (0, 1))], [Word("x", 0, 1, (0,)), Word("yz", 1, 3, (1, 2))])
    np.testing.assert_allclose(joined, [[0.3, 0.7]], atol=1e-6)


def test_links_ignore_special_words() -> None:
    pieces, offsets = pieces_of("ab", 1)
    source = target = tuple(Word(p, s, e, (i,)) for i, (p, (s, e)) in enumerate(zip(pieces, offsets, strict=True)))
    soft = np.array([[0.9, 0.1, 0.0, 0.0], [0.5, 0.1, 0.3, 0.1], [0.0, 0.6, 0.2, 0.2], [0, 0, 0, 1]], dtype=np.float32)
    assert set(target_to_source(soft, source, target)) == {(2, 1), (1, 2)}
    np.testing.assert_allclose(coverage(soft, source, target), [0.5, 0.7, 0.5, 0.3], atol=1e-6)


def test_shift_selects_the_row_of_the_next_step() -> None:
    cross = np.arange(2 * 2 * 3 * 2, dtype=np.float32).reshape(2, 2, 3, 2)
    plain = alignment_map(cross, AlignmentChoice((AlignmentHead(1, 1),)))
    np.testing.assert_array_equal(plain, cross[1, 1])
    shifted = alignment_map(cross, AlignmentChoice((AlignmentHead(1, 1, shift=True),)))
    np.testing.assert_array_equal(shifted, cross[1, 1][[1, 2, 2]])
    both = alignment_map(cross, AlignmentChoice((AlignmentHead(1, 1), AlignmentHead(1, 1, shift=True))))
    np.testing.assert_allclose(both, (plain + shifted) / 2)


def test_choice_is_loaded_from_the_model_folder(tmp_path: Path) -> None:
    assert AlignmentChoice.load(tmp_path, layers=6, heads=4) == AlignmentChoice((AlignmentHead(4),))
    choice = AlignmentChoice((AlignmentHead(1, 0, shift=True), AlignmentHead(0, 3)))
    (tmp_path / FILE).write_text(choice.to_json())
    assert AlignmentChoice.load(tmp_path, layers=6, heads=4) == choice


@pytest.mark.parametrize(
    "text",
    ['{"layer": 2, "heads": [0, 1], "shift": false}', '{"heads": []}', '{"heads": [{"layer": 6}]}',
     '{"heads": [{"layer": 1, "head": "0"}]}', '{"heads": [{"layer": 1, "head": 4}]}', "{", "[]"],
)  # fmt: skip
def test_a_choice_of_other_heads_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=r"alignment\.json does not list heads of the model"):
        AlignmentChoice.load(tmp_path, layers=6, heads=4)
