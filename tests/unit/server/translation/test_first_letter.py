"""Short texts are read again with a small first letter, and the surer reading is kept."""

from __future__ import annotations

import dataclasses

import pytest

from model.search.options import DecodingOptions, Hypothesis
from server.engine.ipc.messages import JobResult
from server.translation.candidates import may_begin_small, with_small_first_letter
from server.translation.catalog import Leg
from server.translation.preparation import segment_text
from server.translation.translator import history_record
from server.translation.types import Translation
from tests.support.engine.fake_engine import FIRST, FakeEngine, FakeTokenizer, fake_model
from tests.support.engine.translating import translated

SURE, UNSURE = -0.1, -1.0
"""Log-probabilities of a translation; with the end of sentence its score is the same."""


class Reader(FakeEngine):
    """Translates each text that the model reads as `known` says: to a text, with a score."""

    def __init__(self, known: dict[str, tuple[str, float]]) -> None:
        super().__init__()
        self.known = known

    async def _translate(self, ids, options, on_progress) -> JobResult:
        answer = await super()._translate(ids, options, on_progress)
        text, score = self.known[FakeTokenizer().decode([i for i in ids if i >= FIRST])]
        found = Hypothesis(FakeTokenizer().encode_target(text), (score,), score, "stop")
        return dataclasses.replace(answer, hypotheses=(found,) * options.hypotheses)


def read(translation: Translation) -> tuple[str, str]:
    [sentence] = translation.legs[0].sentences
    return translation.text, sentence.read


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("Next", "next"),
        ("Font size", "font size"),
        ("Select all of these files", "select all of these files"),
        ("Try again!", "try again!"),
        ("Settings.", "settings."),
        ("Loading the big file…", "loading the big file…"),
        ("Élan", "élan"),
        ("NEXT PAGE", "next page"),
        ("Open %s", "open"),
    ],
)
def test_a_short_text_may_be_read_with_a_small_first_letter(text, small):
    leg = Leg(fake_model(), "en", "de")
    [segment] = segment_text(text, leg).segments
    other = with_small_first_letter(segment, leg)
    assert (
        may_begin_small(segment)
        and (other.text, other.read) == (text, small)
        and other.ids == leg.encode_ids(small)
    )


@pytest.mark.parametrize(
    "text",
    "next|A|PDF|New York|I agree|I'm here|We all go home.|One two three four five six|42|¿Qué?".split(
        "|"
    ),
)
def test_other_texts_are_read_once(text):
    leg = Leg(fake_model(), "en", "de")
    assert [may_begin_small(segment) for segment in segment_text(text, leg).segments] == [False]


@pytest.mark.parametrize(
    ("known", "expected", "readings"),
    [
        ({"Next": ("Next", UNSURE), "next": ("weiter", SURE)}, ("Weiter", "next"), 2),
        ({"Next": ("Next", UNSURE), "next": ("weiter", UNSURE + 0.05)}, ("Next", "Next"), 2),
        ({"Next": ("Next", UNSURE), "next": ("weiter", UNSURE + 0.15)}, ("Weiter", "next"), 2),
        (
            {"Next": ("naechstes", UNSURE), "next": ("weiter", UNSURE + 0.15)},
            ("Naechstes", "Next"),
            2,
        ),
        ({"Next": ("naechstes", UNSURE), "next": ("weiter", UNSURE + 0.25)}, ("Weiter", "next"), 2),
        ({"Next": ("Next", SURE)}, ("Next", "Next"), 1),
    ],
)
def test_the_surer_reading_is_kept(known, expected, readings):
    engine = Reader(known)
    assert read(translated(engine, "Next", "en", "de")) == expected
    assert len(engine.submitted) == readings


def test_all_hypotheses_are_those_of_the_reading_that_is_kept():
    engine = Reader({"Next": ("Next", UNSURE), "next": ("¡weiter!", SURE)})
    translation = translated(
        engine, "Next", "en", "de", options=DecodingOptions(beam_size=2, hypotheses=2)
    )
    assert translation.legs[0].sentences[0].targets == ("¡Weiter!", "¡Weiter!")


@pytest.mark.parametrize("text", ["Next", "NEXT PAGE", "next", "Open %s"])
def test_the_history_has_what_was_read_and_what_was_typed_in_another_case(text):
    small = text.lower().removesuffix(" %s")
    capital = small.capitalize()
    translation = translated(
        Reader({capital: (capital, UNSURE), small: ("weiter", SURE)}), text, "en", "de"
    )
    [sentence] = history_record(translation).legs[0].sentences
    assert (sentence.source_text, sentence.typed) == (
        small,
        text if text.lower() == small != text else "",
    )


def test_capitals_stay_capitals():
    engine = Reader({"Next page": ("Next page", UNSURE), "next page": ("nächste Seite", SURE)})
    assert read(translated(engine, "NEXT PAGE", "en", "de")) == ("NÄCHSTE SEITE", "next page")


def test_spans_are_kept_in_the_reading_that_is_kept():
    engine = Reader({"Open": ("Open", UNSURE), "open": ("öffnen", SURE)})
    assert read(translated(engine, "Open %s", "en", "de")) == ("Öffnen %s", "open")
