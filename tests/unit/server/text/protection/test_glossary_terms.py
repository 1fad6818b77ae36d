"""Terms of a glossary in a text: what is found, and in which form the translation has them."""

from __future__ import annotations

import unicodedata

import pytest

from server.text.protection.glossary import Entry, TermIndex
from server.text.protection.terms import case_edits, form, has_inflected, lacking


def found(text: str, *terms: str, **options) -> list[str]:
    index = TermIndex([Entry(term, term.upper()) for term in terms])
    return [text[match.start : match.end] for match in index.find(text, **options)]


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("the house, the houses", ["house"], ["house"]),
        ("House and HOUSE and hOuse", ["house"], ["House", "HOUSE"]),
        ("an apple, an Apple", ["Apple"], ["Apple"]),
        ("us and the US", ["US"], ["US"]),
        ("a house by the lake house", ["house", "house by the lake"], ["house by the lake", "house"]),
        ("new york city", ["new york", "york city"], ["new york"]),
        ("It is the Battery Manager.", ["battery manager"], ["Battery Manager"]),
        ("open  source", ["open source"], ["open  source"]),
        ("opensource, open-source", ["open source"], []),
        ("the open\u2011source code", ["open-source"], ["open\u2011source"]),
        ("l\u2019eau", ["l'eau"], ["l\u2019eau"]),
        ("我想买手机壳", ["手机"], ["手机"]),
        ("买iPhone手机", ["iPhone"], ["iPhone"]),
        ("C++ and C", ["C++"], ["C++"]),
        ("हिन्दी", ["हिन्द"], []),
        ("x", [""], []),
    ],
)
def test_terms_are_whole_words_and_the_longest_wins(text, terms, expected):
    assert found(text, *terms) == expected


def test_normalization_does_not_matter():
    for form_of_text in ("NFC", "NFD"):
        for form_of_term in ("NFC", "NFD"):
            text = unicodedata.normalize(form_of_text, "ein Café, ein Cafés")
            assert len(found(text, unicodedata.normalize(form_of_term, "Café"))) == 1
    assert found(unicodedata.normalize("NFD", "ein Café"), "Cafe") == []


def test_a_term_may_contain_a_protected_span_and_does_not_cut_one():
    text = "Hello {name} there"
    assert found(text, "Hello {name}", excluded=[(6, 12)]) == ["Hello {name}"]
    assert found(text, "name", excluded=[(6, 12)]) == []


def test_a_term_does_not_cross_lines_where_a_line_is_a_text():
    assert found("open\nsource", "open source") == ["open\nsource"]
    assert found("open\nsource", "open source", lines=True) == []


@pytest.mark.parametrize(
    ("source", "target", "at_start", "expected"),
    [
        ("The battery is low.", "accumulateur", False, "accumulateur"),
        ("Battery is low.", "accumulateur", True, "Accumulateur"),
        ("Battery is low.", "accumulateur", False, "accumulateur"),
        ("battery is low", "accumulateur", True, "accumulateur"),
        ("The Battery is low.", "accumulateur", False, "Accumulateur"),
        ("The BATTERY is low.", "accumulateur", False, "ACCUMULATEUR"),
        ("Battery is low.", "iAkku", True, "iAkku"),
    ],
)
def test_case_follows_the_source(source, target, at_start, expected):
    [term] = TermIndex([Entry("battery", target)]).find(source)
    assert form(term, source, at_start) == expected


def test_a_translation_is_written_in_the_case_of_the_source():
    source = "The battery, the BATTERY."
    terms = TermIndex([Entry("battery", "Akku")]).find(source)
    assert case_edits(terms, source, "Der akku, der akku.") == [(4, 8, "Akku"), (14, 18, "Akku")]
    assert case_edits(terms, source, "Der Akku, der AKKU.") == []
    assert lacking(terms, "Der Akku, der AKKU.") == []
    assert len(lacking(terms, "Der Akku.")) == 1
    assert len(lacking(terms, "Der Akkumulator.")) == 2


def test_an_inflected_translation_is_left_alone_if_the_entry_is_not_exact():
    terms = TermIndex([Entry("house", "Haus", exact=False)]).find("the house")
    assert lacking(terms, "die Häuser") == []
    assert lacking(terms, "die Hausmeister")
    assert lacking(TermIndex([Entry("house", "Haus")]).find("the house"), "die Häuser")
    assert has_inflected("in den großen Häusern", "großes Haus")
    assert has_inflected("les chevaux", "cheval")
    assert not has_inflected("die Haut", "Haus")
