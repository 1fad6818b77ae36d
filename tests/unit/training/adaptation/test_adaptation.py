"""Adaptation, and the further training that it consists of."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from model.checkpoint import load_model, save_model
from model.convert.importer import import_model
from model.head_roles import open_exact
from model.model_folder import ModelFolder, read_folder
from model.pairs import Pair
from model.search.driver import check_trial_sentence
from model.shortlist import Shortlist
from model.symbols import SYMBOLS
from tests.support.models.firefox_models import random_firefox
from tests.support.models.folders import new_folder
from tests.support.models.marian_models import made_up_text, random_huggingface
from tests.support.models.multilingual_models import random_multilingual
from tests.support.models.random_models import random_model
from tests.support.models.tiny_training import made_sentences, small_vocabulary
from training.adaptation import adaptation
from training.adaptation.adaptation import (
    Adaptation,
    Example,
    ExampleBatches,
    adapt,
    encode,
    train,
    write_mixture,
)
from training.adaptation.judgement import Judgement, Score, Sentence, general_sentences, judge
from training.data.batches import PADDING
from training.loop.loss import perplexity_loss
from training.loop.trainer import Trainer
from training.shortlist import extended

SENTENCES = [Sentence(*pair, general=i % 2 == 0) for i, pair in enumerate(made_sentences(60, 5))]


def translations(right: int, *, general: bool = True) -> list[str]:
    """Returns translations of which `right` of ten are right, of the kept and with `general` of the
    general sentences."""
    chosen = [
        (one.general and not general) or i % 20 < 2 * right for i, one in enumerate(SENTENCES)
    ]
    return [
        one.reference if right else "falsch" for one, right in zip(SENTENCES, chosen, strict=True)
    ]


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        (translations(5), translations(9), []),
        (translations(5), translations(5), ["not better", "5,000 pairs"]),
        (translations(5), [*translations(5)[:-1], "falsch!"], ["not better", "5,000 pairs"]),
        (translations(9), translations(5), ["not better", "5,000 pairs", "general set loses"]),
        (
            [one.reference if one.general else "" for one in SENTENCES],
            translations(9),
            ["general set loses"],
        ),
    ],
)
def test_the_reasons_against_a_model(
    before: list[str], after: list[str], reasons: list[str]
) -> None:
    judgement = judge(SENTENCES, before, after, ("en", "de"), {})
    said = judgement.reasons()
    assert len(said) == len(reasons) and all(a in b for a, b in zip(reasons, said, strict=True)), (
        said
    )
    assert judgement.terms is None and judgement.chrf.low <= judgement.gained <= judgement.chrf.high
    assert [row[0] for row in judgement.table()] == ["SCORE", "BLEU", "chrF", "general chrF"]


@pytest.mark.parametrize(
    ("direction", "term", "text", "counts"),
    [
        (("en", "de"), {"cat": "Katze"}, ("A Cat.", "Die Katzen", "Eine KATZE!"), (0.0, 100.0)),
        (("en", "de"), {"at": "zu"}, ("A cat", "", ""), None),
        (("en", "de"), {"C++ (new)": "C++"}, ("In C++ (new)", "C", "in C++"), (0.0, 100.0)),
        (("zh-Hant", "ja"), {"猫": "ネコ"}, ("那只猫坐着", "そのネコは", "犬"), (100.0, 0.0)),
    ],
)
def test_terms_are_whole_words(direction, term, text, counts) -> None:
    source, before, after = text
    terms = judge([Sentence(source, "x")], [before], [after], direction, term).terms
    assert (terms and (terms.before, terms.after)) == counts


@pytest.mark.parametrize(("forgets_from", "share"), [(2.0, 1.0), (0.6, 0.5), (0.0, 1.0)])
def test_the_largest_share_that_does_not_forget_is_taken(
    tmp_path, monkeypatch, forgets_from, share
) -> None:
    written: list[float] = []

    def write(base: object, after: object, share: float, path: Path, *_: object) -> str:
        written.append(share)
        return "folder"

    def translate(path: Path, texts: Sequence[str], seconds: float) -> list[str]:
        share = written[-1] if path != tmp_path else 0.0
        right = {one.source: one for one in SENTENCES}
        places = {one.source: i for i, one in enumerate(SENTENCES)}
        forgotten = share > forgets_from
        return [
            "falsch"
            if (forgotten if right[text].general else places[text] % 20 > 4 + 14 * share)
            else right[text].reference
            for text in texts
        ]

    trained = Mock(return_value="after")
    monkeypatch.setattr(adaptation, "write_mixture", write)
    monkeypatch.setattr(adaptation, "train", trained)
    monkeypatch.setattr(adaptation, "encode", lambda *_: [((1,), (0, 2, 0))])
    monkeypatch.setattr(adaptation, "weights_hash", lambda _: "")
    monkeypatch.setattr(adaptation, "read_shortlist", lambda _: None)
    task = Adaptation(
        base=Mock(path=tmp_path), name="mine", direction=("en", "de"), training=[Pair("a", "b")], sentences=SENTENCES,
        work=tmp_path / "work", minutes=5.0, translate=translate, say=print,
    )  # fmt: skip
    adapted = adapt(task)
    assert (adapted.share, adapted.folder) == (share, "folder") and len(
        adapted.translations
    ) == len(SENTENCES)
    assert bool(adapted.judgement.reasons()) == (forgets_from == 0.0)
    assert 0.3 * 5 <= trained.call_args.args[3] <= 5
    trained.return_value = None
    assert adapt(task) is None


@pytest.mark.parametrize("slow", [0.0, 1.0, 40.0])
def test_shares_are_tried_while_the_minutes_last(tmp_path, monkeypatch, slow) -> None:
    clock, said = [0.0], list[str]()

    def translate(path: Path, texts: Sequence[str], seconds: float) -> list[str]:
        clock[0] += slow
        return list(texts)

    monkeypatch.setattr(adaptation.time, "monotonic", lambda: clock[0])
    for name, value in {
        "write_mixture": "folder",
        "train": "after",
        "weights_hash": "",
        "read_shortlist": None,
    }.items():
        monkeypatch.setattr(adaptation, name, lambda *_, value=value: value)
    monkeypatch.setattr(adaptation, "encode", lambda *_: [((1,), (0, 2, 0))])
    adapted = adapt(Adaptation(
        base=Mock(path=tmp_path), name="mine", direction=("en", "de"), training=[Pair("a", "b")], sentences=SENTENCES,
        work=tmp_path / "work", minutes=2.0, translate=translate, say=said.append, began=0.0,
    ))  # fmt: skip
    assert clock[0] <= 120.0 and adapted.judgement.reasons()
    tried = sum("of the new weights" in line for line in said)
    assert (tried, "minutes" in " ".join(said)) == ((1, True) if slow == 40.0 else (4, False))


@pytest.mark.parametrize("gain", [0.2, 1.0, 3.0])
def test_a_refusal_says_how_many_pairs_would_be_enough(gain) -> None:
    score = Score(40.0, 40.0 + gain, gain - 4.0, gain + 4.0, 50)
    [_, enough] = Judgement(score, score, None, None, 50).reasons()
    pairs = int(re.search(r"([\d,]+) (?:such )?pairs", enough)[1].replace(",", ""))
    # The interval shrinks with the square root of the number of judged pairs, a tenth of all.
    assert pairs == 5_000 if gain == 0.2 else 0 <= pairs - 10 * 50 * (4.0 / gain) ** 2 <= 120


@pytest.mark.parametrize("kept", [60, 90, 100, 1_000])
def test_a_refusal_asks_for_minutes_where_the_pairs_would_be_enough(kept) -> None:
    score = Score(40.0, 43.0, -1.0, 7.0, 50)  # 89 sentences would show that it is not chance
    [_, enough] = Judgement(score, score, None, None, kept).reasons()
    assert enough.startswith("Enough would be more --minutes: 50 of") == (kept >= 90)
    assert ("such pairs" in enough) == (kept < 90)


def test_the_package_has_general_sentences_in_both_directions() -> None:
    there, back = general_sentences("en", "fr"), general_sentences("fr", "en")
    assert 150 < len(there) <= 200 and all(one.general for one in there)
    assert [(one.reference, one.source) for one in back] == [
        (one.source, one.reference) for one in there
    ]
    assert general_sentences("de", "fr") == general_sentences("en", "ja") == []


DIRECTION = ("en", "de")
PAIRS = [Pair(text, f"{text} {text.split()[0]}") for text in made_up_text(3, 120)]


def base(shape: str, path: Path) -> ModelFolder:
    """Returns a random model of a shape: the embedded model's, or one that is imported."""
    if shape == "embedded":
        path.mkdir()
        symbols = [">>de<<", *SYMBOLS]
        pieces = small_vocabulary(
            path / "tokenizer.model", made_up_text(3), 500, user_defined_symbols=symbols
        )
        model = random_model(
            vocab_size=pieces.get_piece_size(), tied_embeddings=True, dropout=0.0, max_length=96
        )
        folder = new_folder(path, model.config, tags={"de": ">>de<<"}, license="MIT")
        save_model(folder, model)
        return folder
    made = path / "made"
    if shape == "firefox":
        random_firefox(made, precision="float32", vocabularies=2, dropout=0.0)
    elif shape == "marian":
        random_huggingface(made)
    else:
        random_multilingual(made, shape)
    return import_model(made, path / "weights")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["embedded", "firefox", "marian", "m2m100", "nllb"])
def test_a_model_of_any_shape_learns_the_pairs_and_is_served(shape: str, tmp_path: Path) -> None:
    folder = base(shape, tmp_path / "base")
    examples = encode(PAIRS, folder, DIRECTION)
    assert len(examples) > 100
    batches = [
        batch
        for _, _, batch in takewhile(
            lambda item: item[0] == 0, ExampleBatches(examples, 999).stream()
        )
    ]
    (tmp_path / "work").mkdir()
    after = train(folder, examples, tmp_path / "work", 1)
    before = load_model(folder)
    assert after is not None
    assert perplexity_loss(after, batches) < perplexity_loss(before, batches) - 0.1
    for share, expected in ((0.0, before), (1.0, after)):
        write_mixture(folder, after, share, tmp_path / "mine", DIRECTION, None)
        written = read_folder(tmp_path / "mine")
        assert (written.name, written.pairs, written.license) == (
            "mine",
            (DIRECTION,),
            folder.license,
        )
        for name, tensor in load_model(written).state_dict().items():
            assert torch.equal(tensor, expected.state_dict()[name]), name
        check_trial_sentence(open_exact(written), written.model)
        assert encode(PAIRS[:9], written, DIRECTION) == encode(PAIRS[:9], folder, DIRECTION)


@pytest.mark.slow
def test_a_resumed_training_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = base("embedded", tmp_path / "base")
    examples = encode(PAIRS, folder, DIRECTION)
    monkeypatch.setattr(adaptation, "_BATCH_TOKENS", 256)
    works = [tmp_path / "whole", tmp_path / "broken"]
    for work in works:
        work.mkdir()
    whole = train(folder, examples, works[0], 9)
    step, stop_at = Trainer._step, {3: signal.SIGINT, 5: signal.SIGTERM}

    def interrupted(trainer: Trainer, stream: object) -> None:
        step(trainer, stream)
        if number := stop_at.pop(trainer.progress.step, None):
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Trainer, "_step", interrupted)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert [train(folder, examples, works[1], 9) for _ in range(2)] == [None, None]
    resumed = train(folder, examples, works[1], 9)
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_an_epoch_has_every_example_once_and_goes_on_anywhere() -> None:
    examples: list[Example] = [
        (tuple(range(4, 6 + i % 7)), (0, *range(9, 10 + i % 5), 0)) for i in range(61)
    ]
    stream = ExampleBatches(examples, 40).stream()
    epoch = list(takewhile(lambda item: item[0] == 0, stream))
    rows = [
        tuple(tuple(side[side != PADDING].tolist()) for side in pair)
        for _, _, batch in epoch
        for pair in zip(batch.source, batch.target, strict=True)
    ]
    # one that is left over has no batch
    assert len(rows) >= len(examples) - 1 and not set(rows) - set(examples)
    assert sum(batch.tokens for _, _, batch in epoch) == sum(len(target) - 1 for _, target in rows)
    again = next(ExampleBatches(examples, 40).stream(0, 3))
    assert again[:2] == (0, 3) and torch.equal(again[2].source, epoch[3][2].source)


@pytest.mark.parametrize("tags", [(), (2, 3)])
def test_a_shortlist_allows_what_the_examples_write(tags: tuple[int, ...]) -> None:
    rows = 50 * max(1, len(tags))
    narrow = Shortlist(
        np.arange(rows + 1), np.arange(rows, dtype=np.int32) % 20, 0, False, 50, tags
    )
    wide = extended(narrow, [(np.array([3, 7, 8]), np.array([31, 32]))] * 3)

    def allowed(listed: Shortlist, source: tuple[int, ...]) -> set[int]:
        table, own = listed.split(source, 0)
        return {*listed.common()[table].tolist(), *own.tolist()}

    assert {31, 32} <= allowed(wide, (3, 7, 8)) and not {31, 32} & allowed(narrow, (3, 7, 8))
    if tags:
        assert allowed(wide, (2, 7, 8)) == allowed(narrow, (2, 7, 8))
