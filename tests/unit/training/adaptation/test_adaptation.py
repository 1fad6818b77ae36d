"""A model is judged on pairs it was not trained on, and is better and has not forgotten, or there are reasons against it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from model.pairs import Pair
from tests.support.models.tiny_training import made_sentences
from training.adaptation import adaptation
from training.adaptation.adaptation import Adaptation, adapt
from training.adaptation.judgement import Judgement, Score, Sentence, general_sentences, judge

SENTENCES = [Sentence(*pair, general=i % 2 == 0) for i, pair in enumerate(made_sentences(60, 5))]


def translations(right: int, *, general: bool = True) -> list[str]:
    """Returns translations of which `right` of ten are right, of the kept and with `general` of the general sentences."""
    chosen = [(one.general and not general) or i % 20 < 2 * right for i, one in enumerate(SENTENCES)]
    return [one.reference if right else "falsch" for one, right in zip(SENTENCES, chosen, strict=True)]


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        (translations(5), translations(9), []),
        (translations(5), translations(5), ["not better", "5,000 pairs"]),
        (translations(5), [*translations(5)[:-1], "falsch!"], ["not better", "5,000 pairs"]),
        (translations(9), translations(5), ["not better", "5,000 pairs", "general set loses"]),
        ([one.reference if one.general else "" for one in SENTENCES], translations(9), ["general set loses"]),
    ],
)
def test_the_reasons_against_a_model(before: list[str], after: list[str], reasons: list[str]) -> None:
    judgement = judge(SENTENCES, before, after, ("en", "de"), {})
    said = judgement.reasons()
    assert len(said) == len(reasons) and all(a in b for a, b in zip(reasons, said, strict=True)), said
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
def test_the_largest_share_that_does_not_forget_is_taken(tmp_path, monkeypatch, forgets_from, share) -> None:
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
    assert (adapted.share, adapted.folder) == (share, "folder") and len(adapted.translations) == len(SENTENCES)
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
    assert [(one.reference, one.source) for one in back] == [(one.source, one.reference) for one in there]
    assert general_sentences("de", "fr") == general_sentences("en", "ja") == []
