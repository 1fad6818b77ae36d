"""The same spans are masked on both sides, and the vocabulary keeps the symbols."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from model.symbols import PLACEHOLDERS, SYMBOLS
from tests.support.models.tiny_training import small_vocabulary
from training.data.placeholders import mask_shared_spans

_TEXT = [
    "the cat sees 3 dogs in 1999",
    "die Katze sieht 3 Hunde",
    "see https://a.example or {x}",
    "Anna and Peter met Anna",
]


@pytest.mark.parametrize(
    ("left", "right", "masked"),
    [
        ("In 1999 they met Anna.", "Sie trafen Anna im Jahr 1999.", {"1999", "Anna"}),
        (
            "See https://a.example/x?y=1 or write to a.b@c.example.",
            "Siehe https://a.example/x?y=1 oder a.b@c.example.",
            {"https://a.example/x?y=1", "a.b@c.example"},
        ),
        ("Hello {name}, %s is new.", "Hallo {name}, %s ist neu.", {"{name}", "%s"}),
        ("It costs 3.50 there, not 3.", "Es kostet dort 3,50, nicht 3.", set()),
        ("They live in New York.", "Sie leben in New York.", {"New York"}),
        ("In spring we go to Paris.", "In Paris ist Frühling.", {"Paris"}),
        ("The 2nd of 2 parts.", "Der zweite von 2 Teilen.", set()),
        ("Nothing is shared.", "Nichts ist gleich.", set()),
    ],
)
def test_shared_spans_are_masked_on_both_sides(left: str, right: str, masked: set[str]) -> None:
    seen: set[str] = set()
    for seed in range(40):
        masked_left, masked_right = mask_shared_spans(left, right, np.random.default_rng(seed))
        symbols = re.findall(r"<ph\d>", masked_left)
        assert sorted(symbols) == sorted(re.findall(r"<ph\d>", masked_right))
        assert len(symbols) == len(set(symbols))
        for before, after in ((left, masked_left), (right, masked_right)):
            pattern = re.escape(after)
            for symbol in set(symbols):
                pattern = pattern.replace(re.escape(symbol), "(.+)")
            found = re.fullmatch(pattern, before)
            assert found is not None
            seen |= set(found.groups())
    assert seen == masked


def test_a_span_that_occurs_twice_has_one_number() -> None:
    for seed in range(20):
        masked_left, masked_right = mask_shared_spans(
            "And Anna saw Anna.", "Und Anna sah Anna.", np.random.default_rng(seed)
        )
        assert masked_left == masked_right.replace("Und", "And").replace("sah", "saw")
        assert len(set(re.findall(r"<ph\d>", masked_left))) <= 1


def test_all_numbers_are_drawn() -> None:
    found = {mask_shared_spans("a 7", "b 7", np.random.default_rng(seed))[0][2:] for seed in range(200)}
    assert found == {*PLACEHOLDERS, "7"}


def test_a_first_word_is_masked_only_if_it_is_a_listed_name() -> None:
    random = np.random.default_rng(1)
    assert all(mask_shared_spans("Warm it is.", "Warm ist es.", random)[0] == "Warm it is." for _ in range(20))
    assert any(mask_shared_spans("Anna is.", "Anna ist.", random, {"Anna"})[0] != "Anna is." for _ in range(20))


def test_a_vocabulary_keeps_the_symbols(tmp_path: Path) -> None:
    processor = small_vocabulary(tmp_path / "t.model", _TEXT * 5, 340, user_defined_symbols=list(SYMBOLS))
    masked = "the <ph1> sees <ph9>, <g>cat</g>."
    assert processor.decode(processor.encode(masked)) == masked
