"""Terms of a glossary in translations, by a model that writes the letters of each word in reverse
order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from model.search.options import DecodingOptions
from server.text.glossary import Entry, TermIndex
from server.translation.catalog import ModelCatalog
from server.translation.types import Sentence, Translation
from tests.support.engine.fake_engine import fake_model
from tests.support.engine.faulty_engine import FaultyEngine, WordTokenizer
from tests.support.engine.translating import translated


class GlossaryEngine(FaultyEngine):
    """Goes on after the words of a prefix: words that it would not have written stand for the next
    word."""

    def _given(self, words, prefix):
        given, left, unknown = [], list(words), False
        for token in prefix:
            at = next((i for i, (word, _) in enumerate(left) if word == token), None)
            given.append((token, left[at or 0][1] if left else 0))
            if at is not None or not unknown:
                del left[: (at or 0) + 1]
            unknown = at is None
        return given, left


Translate = Callable[..., Translation]


@pytest.fixture(params=["symbols", "none"])
def words(request: pytest.FixtureRequest) -> GlossaryEngine:
    return GlossaryEngine(WordTokenizer(request.param))


@pytest.fixture
def translate(words: GlossaryEngine) -> Translate:
    catalog = ModelCatalog([dataclasses.replace(fake_model(), tokenizer=words._tokenizer)])

    def call(text: str, entries: dict[str, str] | None = None, **fields: Any) -> Translation:
        exact = fields.pop("exact", True)
        glossary = (
            TermIndex([Entry(*entry, exact) for entry in entries.items()])
            if entries is not None
            else None
        )
        asked = {"source": "en", "target": "de", **fields}
        return translated(words, text, catalog=catalog, glossary=glossary, **asked)

    return call


@pytest.mark.parametrize(
    ("text", "entries", "expected"),
    [
        ("the battery works", {"battery": "Akku"}, "eht Akku skrow"),
        ("Battery works well.", {"battery": "accu"}, "Accu skrow llew."),
        ("battery works well.", {"battery": "accu"}, "accu skrow llew."),
        ("The old BATTERY works", {"battery": "Akku"}, "ehT dlo AKKU skrow"),
        ("CHARGE THE BATTERY NOW", {"battery": "Akku"}, "EGRAHC EHT AKKU WON"),
        ("the battery and the battery", {"battery": "Akku"}, "eht Akku dna eht Akku"),
        (
            "the battery and the device",
            {"battery": "Akku", "device": "Gerät"},
            "eht Akku dna eht Gerät",
        ),
        (
            "the battery works. The cat sleeps.",
            {"battery": "Akku"},
            "eht Akku skrow. ehT tac speels.",
        ),
        ("the batteries work", {"battery": "Akku"}, "eht seirettab krow"),
        ("the (battery) works", {"battery": "Akku"}, "eht (Akku) skrow"),
        ("Battery", {"battery": "Akku"}, "Akku"),
        ("Battery: 100", {"battery": "Akku"}, "Akku: 100"),
        ("open\nsource", {"open source": "quelloffen"}, "nepo\necruos"),
    ],
)
def test_terms_are_translated_as_the_glossary_says(translate, text, entries, expected):
    assert translate(text, entries).text == expected


@pytest.mark.parametrize(
    ("text", "entries", "term"),
    [
        ("an open source code", {"open": "offen", "open source": "quelloffen"}, "quelloffen"),
        ("see Dr. No here", {"Dr. No": "Doktor No"}, "Doktor No"),
        ("see here. No way", {"here. No": "da. Nein"}, "da. Nein"),
    ],
)
def test_a_term_may_have_several_words(translate, text, entries, term):
    found = translate(text, entries)
    assert term in found.text and len(found.legs[0].sentences) == 1


@pytest.mark.parametrize(
    ("text", "entries", "expected"),
    [
        ("the {name} has a battery", {"battery": "Akku"}, "eht {name} sah a Akku"),
        ("say Hello {name} now", {"Hello {name}": "Hallo {name}"}, "yas Hallo {name} won"),
        ("say Hello {name} now", {"Hello {name}": "Hallo"}, "yas olleH {name} won"),
        ("the {battery} works", {"battery": "Akku"}, "eht {battery} skrow"),
        ("Hello {name}", {"Hello {name}": "Hallo {name}"}, "Hallo {name}"),
        (
            "{n, plural, other {# battery works}}",
            {"battery": "Akku"},
            "{n, plural, other {# Akku skrow}}",
        ),
    ],
)
def test_terms_and_placeholders(words, translate, text, entries, expected):
    found = translate(text, entries).text
    assert found == expected or (
        not words._tokenizer.is_piece("<ph1>") and sorted(found) == sorted(expected)
    )


def test_words_that_are_not_translated_are_no_terms(translate):
    assert (
        translate("the battery works", {"battery": "Akku"}, do_not_translate=("battery",)).text
        == "eht battery skrow"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>the <b>battery</b> works</p>", "<p>eht <b>Akku</b> skrow</p>"),
        (
            '<p><code translate="no">battery</code> works</p>',
            '<p><code translate="no">battery</code> skrow</p>',
        ),
        ("<p>Battery</p>", "<p>Akku</p>"),
        ("<td>battery</td><td>works</td>", "<td>Akku</td><td>skrow</td>"),
        (
            "<ul><li>the battery</li><li>battery</li></ul>",
            "<ul><li>eht Akku</li><li>Akku</li></ul>",
        ),
        ("one<br>battery<br>two", "eno<br>Akku<br>owt"),
    ],
)
def test_terms_in_html(translate, text, expected):
    assert translate(text, {"battery": "Akku"}, format="html").text == expected


def test_a_sentence_without_a_term_is_the_same_job(words, translate):
    text = "The cat sleeps here. It has {count} mice."
    plain = translate(text)
    jobs = list(words.submitted)
    words.submitted.clear()
    found = translate(text, {"battery": "Akku", "mouse": "Maus"})
    assert (found.text, found.legs) == (plain.text, plain.legs)
    assert words.submitted == jobs


def test_a_term_that_the_model_has_written_costs_nothing(words, translate):
    assert translate("the battery works", {"battery": "yrettab"}).text == "eht yrettab skrow"
    assert len(words.submitted) == 1 and not words.attended


def test_an_inflected_form_of_the_model_is_left_alone(translate):
    entries = {"battery": "yrettaben"}
    assert translate("the battery works", entries, exact=False).text == "eht yrettab skrow"
    assert translate("the battery works", entries).text == "eht yrettaben skrow"


def test_a_term_survives_a_pivot_language(translate):
    found = translate("das Haus hier", {"Haus": "Maison"}, source="de", target="fr")
    assert len(found.legs) == 2 and found.text == "das Maison hier"


def test_alternatives_have_the_terms_too(translate):
    options = DecodingOptions(beam_size=3, hypotheses=3)
    found = translate("the battery works", {"battery": "Akku"}, options=options)
    assert all("Akku" in text for text in (found.text, *found.alternatives))


def test_the_history_has_the_tokens_of_the_translation(words, translate):
    sentence: Sentence = translate("the battery works", {"battery": "Akku"}).legs[0].sentences[0]
    assert (
        words._tokenizer.decode(sentence.hypotheses[0].tokens)
        == sentence.targets[0]
        == "eht Akku skrow"
    )


def test_a_language_without_spaces(translate):
    assert "手机" in translate("the phone works", {"phone": "手机"}).text


def test_inflected_terms(translate):
    assert translate("the batteries work", {"battery": "Akku"}, exact=False).text == "eht Akku krow"
