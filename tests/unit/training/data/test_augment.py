"""Augmented training data: changed texts, placeholders and forms of address."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from model.symbols import FORMAL, INFORMAL, PLACEHOLDERS, SYMBOLS, form_of_address
from tests.support.models.tiny_training import small_vocabulary
from training.data.augment import Augmenter, kind_number, mask_shared_spans, shared_names
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
    processor: sentencepiece.SentencePieceProcessor,
    augmenter: Augmenter,
    pair: tuple[str, str],
    seed: int,
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
        assert [len(number) for number in numbers] == [
            len(number) for number in re.findall(r"\d+", pair[0])
        ]
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


def test_shared_names_are_words_of_both_sides(
    processor: sentencepiece.SentencePieceProcessor,
) -> None:
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
    found = {
        mask_shared_spans("a 7", "b 7", np.random.default_rng(seed))[0][2:] for seed in range(200)
    }
    assert found == {*PLACEHOLDERS, "7"}


def test_a_first_word_is_masked_only_if_it_is_a_listed_name() -> None:
    random = np.random.default_rng(1)
    assert all(
        mask_shared_spans("Warm it is.", "Warm ist es.", random)[0] == "Warm it is."
        for _ in range(20)
    )
    assert any(
        mask_shared_spans("Anna is.", "Anna ist.", random, {"Anna"})[0] != "Anna is."
        for _ in range(20)
    )


def test_a_vocabulary_keeps_the_symbols(tmp_path: Path) -> None:
    processor = small_vocabulary(
        tmp_path / "t.model", _TEXT * 5, 340, user_defined_symbols=list(SYMBOLS)
    )
    masked = "the <ph1> sees <ph9>, <g>cat</g>."
    assert processor.decode(processor.encode(masked)) == masked


@pytest.mark.parametrize(
    ("language", "text", "form"),
    [
        ("de", "Können Sie mir bitte helfen?", FORMAL),
        ("de", "Ich danke Ihnen für Ihren Brief.", FORMAL),
        ("de", "Sie kommt heute.", None),  # she, they or you
        ("de", "Ja. Sie kommt.", None),
        ("de", "Kannst du mir helfen?", INFORMAL),
        ("de", "Dein Hund ist hier.", INFORMAL),
        ("de", "Er sagte: du und Sie.", None),
        ("de", "Es regnet.", None),
        ("fr", "Pouvez-vous m'aider ?", FORMAL),
        ("fr", "Je t'aime.", INFORMAL),
        ("fr", "Où est ton chien ?", INFORMAL),
        ("fr", "Il pleut.", None),
        ("es", "¿Puede usted ayudarme?", FORMAL),
        ("es", "¿Tú vienes?", INFORMAL),
        ("es", "Su perro está aquí.", None),
        ("de-AT", "Haben Sie deinen Hund?", None),
        ("de-AT", "Wie geht es Ihnen?", FORMAL),
        ("de", "Sie schläft. Ihre Katze auch.", None),
        ("fr", "Je t’aime.", INFORMAL),
        ("fr", "Où allez-vous ?", FORMAL),
        ("fr", "Cliquez ici pour enregistrer.", FORMAL),
        ("fr", "Ne touchez pas la porte chez Mme Gomez.", FORMAL),
        ("fr", "Assez ! Il est chez M. Lopez.", None),
        ("fr", "Cliquez ici pour garder tes fichiers.", None),
        ("es", "¿Tienes tu llave?", INFORMAL),
        ("en", "Can you help me?", None),
    ],
)
def test_form_of_address(language: str, text: str, form: str | None) -> None:
    assert form_of_address(text, language) == form


def test_the_symbol_comes_first_in_the_source(tmp_path: Path) -> None:
    text = ["can you help me kannst du mir helfen es regnet"] * 5
    processor = small_vocabulary(
        tmp_path / "t.model", text, 340, user_defined_symbols=list(SYMBOLS)
    )
    augmenter = Augmenter(processor, {"formality": 1.0})
    random, kind = np.random.default_rng(1), kind_number("formality")
    source, german = (
        np.array(processor.encode(text)) for text in ("can you help me", "kannst du mir helfen")
    )
    left, right = augmenter.rewrite(kind, source, german, random, "de")
    assert left.tolist() == [processor.piece_to_id(INFORMAL), *source.tolist()]
    assert right.tolist() == german.tolist()
    same, _ = augmenter.rewrite(kind, german, source, random, "en")
    assert same.tolist() == german.tolist()
    lengths = augmenter.reserved_lengths(
        np.array([kind, 0]), np.array([9, 9]), np.array([9, 9]), 40
    )
    assert [side.tolist() for side in lengths] == [[10, 9], [9, 9]]
