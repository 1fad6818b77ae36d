"""Nothing decodes that a sentence did not declare, and admission charges the share that was lately used."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from model.search.options import DecodingOptions
from model.symbols import FORMAL
from server.text.protection.glossary import Entry, TermIndex
from server.translation.catalog import ModelCatalog
from server.translation.passes.candidates import Candidate, better
from server.translation.sentence import Shares, declared, rows
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import fake_model
from tests.support.engine.faulty_engine import FaultyEngine, WordTokenizer
from tests.support.engine.translating import translated

GLOSSARY = TermIndex([Entry("house", "esuoh neu"), Entry("bread", "torb")])
TEXT = "The bread 4x4 is in our house 12.50 and costs 7 or {name}."


def request(**fields) -> TranslationRequest:
    return TranslationRequest(texts=(), source="en", target="de", **fields)


@pytest.mark.parametrize("hypotheses", [1, 3])
@pytest.mark.parametrize("fields", [{}, {"glossary": GLOSSARY}, {"on_flag": "retry"}, {"thorough": True}])
@pytest.mark.parametrize("kind", ["symbols", "names", "none"])
def test_no_more_rows_are_decoded_than_were_declared(kind, fields, hypotheses):
    tokenizer = WordTokenizer(kind)
    catalog = ModelCatalog([dataclasses.replace(fake_model(), tokenizer=tokenizer)])
    options = DecodingOptions(beam_size=4, hypotheses=hypotheses)
    most = sum(declared(request(options=options, **fields), options).values())
    for seed in range(12):
        engine = FaultyEngine(tokenizer, seed)
        translated(engine, TEXT, "en", "de", catalog, options=options, **fields)
        used = [1 if each[2].target is not None else each[2].beam_size for each in engine.submitted]
        assert sum(used) + len(engine.attended) <= most


def test_a_plain_request_is_charged_its_beam_until_sentences_need_more():
    shares, options = Shares(), DecodingOptions(beam_size=4)
    plain, terms = request(options=options), request(options=options, glossary=GLOSSARY)
    assert shares.rows(plain, options) == pytest.approx(4)
    forms = declared(terms, options)
    for _ in range(2_000):
        shares.note(forms, Counter(beam=4, terms=forms["terms"] // 2, masked=2))
    assert shares.rows(plain, options) == pytest.approx(4 + 2, abs=0.1)
    assert shares.rows(terms, options) == pytest.approx(4 + 2 + forms["terms"] // 2, abs=0.2)


@pytest.mark.parametrize("on_flag", ["mark", "retry"])
@pytest.mark.parametrize(("beam", "hypotheses", "rerank"), [(1, 1, False), (8, 6, False), (8, 1, True), (8, 6, True)])
def test_what_a_request_chooses_is_declared(beam, hypotheses, rerank, on_flag):
    options = DecodingOptions(beam_size=beam, hypotheses=hypotheses, rerank=rerank)
    asked = request(options=options, on_flag=on_flag, formality=FORMAL)
    forms = declared(asked, options)
    assert rows(asked, options) <= sum(forms.values())
    assert forms["beam"] == beam and ("wider" in forms) == (on_flag == "retry") and forms["address"] == 8


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
    both = [Candidate(Scored(score), fault, margin) for score, fault in zip(scores, faults, strict=True)]  # type: ignore[arg-type]
    assert better(both[0], both[1], DecodingOptions()) is both[chosen]
