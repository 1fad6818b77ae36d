"""Augmented pairs remain translations of each other: names and numbers change in the same way on both sides."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sentencepiece

from tests.support.models.tiny_training import small_vocabulary
from training.data.augment import Augmenter, shared_names
from training.data.shards import Shard

_PAIRS = [
    ("Today Anna has 3 cats.", "Heute hat Anna 3 Katzen."),
    ("In 1999 Peter met Anna.", "Peter traf Anna im Jahr 1999."),
    ("Have you 1 dog, Peter?", "Hast du 1 Hund, Peter?"),
    ("They see Peter at 10.", "Sie sehen Peter um 10 Uhr."),
]


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> sentencepiece.SentencePieceProcessor:
    file = tmp_path_factory.mktemp("vocabulary") / "tokenizer.model"
    return small_vocabulary(file, [text for pair in _PAIRS for text in pair], split_digits=True)


def _ids(processor: sentencepiece.SentencePieceProcessor, text: str) -> np.ndarray:
    return np.array(processor.encode(text), dtype=np.int64)


def _texts(
    processor: sentencepiece.SentencePieceProcessor, augmenter: Augmenter, pair: tuple[str, str], seed: int
) -> tuple[str, str]:
    random = np.random.default_rng(seed)
    kind = int(augmenter.choose_kinds(1, random)[0])
    rows = augmenter.rewrite(kind, _ids(processor, pair[0]), _ids(processor, pair[1]), random)
    return processor.decode(rows[0].tolist()), processor.decode(rows[1].tolist())


@pytest.mark.parametrize("pair", _PAIRS)
def test_numbers_stay_equal_on_both_sides(
    processor: sentencepiece.SentencePieceProcessor, pair: tuple[str, str]
) -> None:
    augmenter = Augmenter(processor, {"numbers": 1.0})
    for seed in range(20):
        left, right = _texts(processor, augmenter, pair, seed)
        numbers = re.findall(r"\d+", left)
        assert numbers == re.findall(r"\d+", right)
        assert [len(number) for number in numbers] == [len(number) for number in re.findall(r"\d+", pair[0])]
        assert re.sub(r"\d", "", left) == re.sub(r"\d", "", pair[0])
        assert "1 dog" in left or "1 dog" not in pair[0]  # the noun is singular


def test_names_change_on_both_sides(processor: sentencepiece.SentencePieceProcessor) -> None:
    augmenter = Augmenter(processor, {"names": 1.0}, ["Anna", "Peter", "Greta"])
    changed = 0
    for seed in range(20):
        left, right = _texts(processor, augmenter, _PAIRS[1], seed)
        found = [set(re.findall("Anna|Peter|Greta", text)) for text in (left, right)]
        assert found[0] == found[1]
        changed += "Greta" in found[0]
    assert changed


def test_shared_names_are_words_of_both_sides(processor: sentencepiece.SentencePieceProcessor) -> None:
    sides = [[_ids(processor, pair[side]).astype(np.uint16) for pair in _PAIRS] for side in (0, 1)]
    starts = [np.concatenate([[0], np.cumsum([len(row) for row in rows])]) for rows in sides]
    shard = Shard(
        np.concatenate(sides[0]),
        np.concatenate(sides[1]),
        starts[0],
        starts[1],
        np.zeros(len(_PAIRS), np.uint8),
        ("made:de",),
    )
    assert shared_names(shard, processor, least=1) == ["Anna", "Peter"]


def test_kinds_are_drawn_with_their_rates(processor: sentencepiece.SentencePieceProcessor) -> None:
    augmenter = Augmenter(processor, {"upper": 0.25, "copy": 0.1})
    kinds = augmenter.choose_kinds(20_000, np.random.default_rng(1))
    shares = np.bincount(kinds, minlength=7) / len(kinds)
    assert shares == pytest.approx([0.65, 0, 0.25, 0, 0.1, 0, 0], abs=0.01)
    sources, targets = np.full(20_000, 10), np.full(20_000, 14)
    lengths = augmenter.reserved_lengths(kinds, sources, targets, 25)
    for kind, source, target in ((0, 10, 14), (2, 22, 25), (4, 15, 14)):
        assert set(lengths[0][kinds == kind]) == {source}
        assert set(lengths[1][kinds == kind]) == {target}
