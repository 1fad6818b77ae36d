"""Nothing decodes that a sentence did not declare, admission charges the share that was lately
used, alternatives say something else than the best translation, and a translation has the requested
form of address if the search finds one."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import pytest

from model.search.options import DecodingOptions, Hypothesis
from model.symbols import FORMAL
from server.access.admission import RowShares
from server.engine.ipc.messages import JobResult, Timings
from server.text.glossary import Entry, TermIndex
from server.translation.candidates import Candidate, better, distinct_alternatives
from server.translation.catalog import ModelCatalog
from server.translation.sentence import declared, rows
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import FakeEngine, FakeTokenizer, fake_model
from tests.support.engine.faulty_engine import FaultyEngine, WordTokenizer
from tests.support.engine.translating import translated

GLOSSARY = TermIndex([Entry("house", "esuoh neu"), Entry("bread", "torb")])
TEXT = "The bread 4x4 is in our house 12.50 and costs 7 or {name}."


def request(**fields) -> TranslationRequest:
    return TranslationRequest(texts=(), source="en", target="de", **fields)


@pytest.mark.parametrize("hypotheses", [1, 3])
@pytest.mark.parametrize(
    "fields", [{}, {"glossary": GLOSSARY}, {"on_flag": "retry"}, {"thorough": True}]
)
@pytest.mark.parametrize("kind", ["symbols", "names", "none"])
def test_no_more_rows_are_decoded_than_were_declared(kind, fields, hypotheses):
    tokenizer = WordTokenizer(kind)
    catalog = ModelCatalog([dataclasses.replace(fake_model(), tokenizer=tokenizer)])
    options = DecodingOptions(beam_size=4, hypotheses=hypotheses)
    best = dataclasses.replace(options, hypotheses=1)
    most = sum(declared(request(options=options, **fields), options, best).values())
    for seed in range(12):
        engine = FaultyEngine(tokenizer, seed)
        translated(engine, TEXT, "en", "de", catalog, options=options, **fields)
        used = [1 if each[2].target is not None else each[2].beam_size for each in engine.submitted]
        assert sum(used) + len(engine.attended) <= most


class ListingEngine(FaultyEngine):
    """Writes another n-best list for each beam width, with scores that a pass over a forced target
    has too."""

    async def _translate(self, ids, options, on_progress) -> JobResult:
        if options.target is not None:
            targets = [options.target]
        else:
            targets = []
            for _ in range(options.hypotheses):
                self._seed = f"{options.beam_size} {len(targets)}"
                targets.append(tuple([token for token, _ in self.plan(ids, options.prefix)]))
        scores = [-random.Random(f"{ids} {target}").random() for target in targets]
        known = [
            Hypothesis(target, (score,) * (len(target) + 1), score, "stop")
            for target, score in zip(targets, scores, strict=True)
        ]
        return JobResult(0, tuple(known), Timings(0, 0, 0, 0), 1)


@pytest.mark.parametrize("fields", [{}, {"glossary": GLOSSARY}, {"on_flag": "retry"}])
@pytest.mark.parametrize("rerank", [False, True])
@pytest.mark.parametrize("beam", [0, 1, 2, 5])
def test_the_best_translation_does_not_depend_on_the_number_of_alternatives(beam, rerank, fields):
    tokenizer = WordTokenizer("names")
    catalog = ModelCatalog([dataclasses.replace(fake_model(), tokenizer=tokenizer)])
    texts = set()
    for hypotheses in (1, 3, 7):
        wide = max(beam, hypotheses) if beam else 0
        options = DecodingOptions(beam_size=wide, hypotheses=hypotheses, rerank=rerank)
        done = translated(
            ListingEngine(tokenizer),
            TEXT,
            "en",
            "de",
            catalog,
            options=options,
            best_beam=beam,
            **fields,
        )
        texts.add(done.text)
    assert len(texts) == 1


def test_a_plain_request_is_charged_its_beam_until_sentences_need_more():
    shares, options = RowShares(), DecodingOptions(beam_size=4)
    plain, terms = request(options=options), request(options=options, glossary=GLOSSARY)
    first, forms = [declared(each, options, options) for each in (plain, terms)]
    assert shares.rows(first) == pytest.approx(4)
    for _ in range(2_000):
        shares.note(forms, Counter(beam=4, terms=forms["terms"] // 2, masked=4))
    assert shares.rows(first) == pytest.approx(4 + 2, abs=0.1)
    assert shares.rows(forms) == pytest.approx(4 + 4 + forms["terms"] // 2, abs=0.2)


@pytest.mark.parametrize("on_flag", ["mark", "retry"])
@pytest.mark.parametrize(
    ("beam", "hypotheses", "rerank"), [(1, 1, False), (8, 6, False), (8, 1, True), (8, 6, True)]
)
def test_what_a_request_chooses_is_declared(beam, hypotheses, rerank, on_flag):
    options = DecodingOptions(beam_size=beam, hypotheses=hypotheses, rerank=rerank)
    asked = request(options=options, on_flag=on_flag, formality=FORMAL)
    forms = declared(
        asked, options, options if rerank else dataclasses.replace(options, hypotheses=1)
    )
    assert rows(asked, options) <= sum(forms.values())
    assert (
        forms["beam"] == beam
        and ("wider" in forms) == (on_flag == "retry")
        and forms["address"] == 8
    )


class Scored:
    copied = False

    def __init__(self, score: float) -> None:
        self.value = score

    def score(self, _: DecodingOptions) -> float:
        return self.value


@pytest.mark.parametrize(
    ("faults", "scores", "margin", "chosen"),
    [
        ((0, 0), (-1, -0.9), 0.2, 0),
        ((0, 0), (-1, -0.7), 0.2, 1),
        ((1, 0), (-1, -9), 0.2, 1),
        ((0, 1), (-9, -1), 0.0, 0),
    ],
)
def test_a_candidate_is_chosen_by_faults_then_by_score(faults, scores, margin, chosen):
    both = [
        Candidate(Scored(score), fault, margin) for score, fault in zip(scores, faults, strict=True)
    ]  # type: ignore[arg-type]
    assert better(both[0], both[1], DecodingOptions()) is both[chosen]


@pytest.mark.parametrize(
    ("best", "other"),
    [
        ("Guten Morgen", "Guten Morgen."),
        ("Guten Morgen", "Guten Morgen!"),
        ("Guten Morgen!", "guten Morgen"),
        ("Guten Morgen.", "Guten morgen"),
        ("Ja, gern.", "Ja gern!"),
        ("„Ja“", "\u00bbJa\u00ab"),
        ("Oui !", "Oui\u00a0!"),
        ("Speichern", "Speichern der Datei"),
        ("Das Haus ist rot", "Das Haus ist rot."),
        ("Das Haus ist rot.", "Das Haus ist rot und neu."),
        ("Das Haus ist rot", "das Haus ist Rot wie Blut"),
        ("Guten Morgen", "Guten Morgen dir"),
        ("¿Qué hora es?", "Qué hora es"),
        ("你好", "你好。"),
        ("你好", "你好吗"),
        ("<b>Ja</b>", "<b>Ja!</b>"),
        ("?!", "..."),
    ],
)
def test_alternatives_with_other_punctuation_or_more_words_at_the_end_are_dropped(best, other):
    assert distinct_alternatives(best, [other]) == ()


@pytest.mark.parametrize(
    ("best", "other"),
    [
        ("Guten Morgen", "Guten Tag"),
        ("Guten Morgen", "Morgen"),
        ("Haben Sie Zeit", "Haben sie Zeit"),
        ("das Haus", "das Hausboot"),
        ("Speichern unter", "Speichern"),
        ("3,5 Meter", "3,6 Meter"),
        ("你好", "您好"),
        ("", "Ja"),
    ],
)
def test_alternatives_with_other_words_are_kept(best, other):
    assert distinct_alternatives(best, [other, other + " !", other]) == (other,)


SIE, DU, MAN = "Wo wohnen Sie?", "Wo wohnst du?", "Wo wohnt man?"
BOTH = "Wo wohnen Sie mit deinem Hund?"


class Listed(FakeEngine):
    """Finds these translations of every text, best first, each 0.2 less likely than the one
    before."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.found = [
            Hypothesis(FakeTokenizer().encode_target(text), (-0.2 * i,), -0.2 * i, "stop")
            for i, text in enumerate(texts)
        ]

    async def _translate(self, ids, options, on_progress) -> JobResult:
        answer = await super()._translate(ids, options, on_progress)
        return dataclasses.replace(answer, hypotheses=tuple(self.found[: options.hypotheses]))


@pytest.mark.parametrize(
    ("formality", "found", "expected", "searches"),
    [
        ("<informal>", (SIE, MAN, DU), DU, 2),
        ("<formal>", (DU, SIE), SIE, 2),
        ("<formal>", (SIE, DU), SIE, 1),
        ("<informal>", (MAN, DU), MAN, 1),  # addresses nobody
        ("<informal>", (SIE, MAN), SIE, 2),
        ("<informal>", (SIE, MAN, MAN + "x", DU), SIE, 2),  # too unlikely
        ("<informal>", (BOTH, SIE, DU), DU, 2),
        ("<formal>", (BOTH, MAN, SIE), SIE, 2),
        ("<formal>", (BOTH, MAN), BOTH, 2),
        (None, (SIE, DU), SIE, 1),
        (None, (BOTH, SIE), BOTH, 1),
    ],
)
def test_the_likeliest_translation_with_the_requested_form_is_chosen(
    formality, found, expected, searches
):
    engine = Listed(*found)
    catalog = ModelCatalog([dataclasses.replace(fake_model(), formality=frozenset({"de"}))])
    assert (
        translated(engine, "Where do you live?", "en", "de", catalog, formality=formality).text
        == expected
    )
    assert len(engine.submitted) == searches
