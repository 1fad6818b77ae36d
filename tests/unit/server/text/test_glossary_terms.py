"""Terms of a glossary in a text: what is found, and in which form the translation has them."""

from __future__ import annotations

import random
import unicodedata

import pytest

from server.text.glossary import (
    Entry,
    TermIndex,
    case_edits,
    dictionary_forms,
    form,
    inflected_place,
    is_damaged,
    lacking,
    without_article,
)


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
        (
            "a house by the lake house",
            ["house", "house by the lake"],
            ["house by the lake", "house"],
        ),
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
    assert found("open\nsource", "open source", cuts=[4]) == []


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
    assert inflected_place("in den großen Häusern", "großes Haus")
    assert inflected_place("les chevaux", "cheval")
    assert not inflected_place("die Haut", "Haus")


@pytest.mark.parametrize(
    ("language", "text", "entry", "expected"),
    [
        ("en", "the batteries", "battery", "batteries"),
        ("en", "Batteries!", "battery", "Batteries"),
        ("en", "all BATTERIES", "battery", "BATTERIES"),
        ("en", "two boxes", "box", "boxes"),
        ("en", "the women", "woman", "women"),
        ("en", "sharp knives", "knife", "knives"),
        ("en", "battery packs", "battery pack", "battery packs"),
        ("en", "user's guides", "user's guide", "user's guides"),
        ("de", "die Häuser", "Haus", "Häuser"),
        ("de", "in den Häusern", "Haus", "Häusern"),
        ("de", "drei Äpfel", "Apfel", "Äpfel"),
        ("de", "die Lehrerinnen", "Lehrerin", "Lehrerinnen"),
        ("de-AT", "des Hauses", "Haus", "Hauses"),
        ("de", "die Museen", "Museum", "Museen"),
        ("fr", "les chevaux", "cheval", "chevaux"),
        ("fr", "les bases de données", "base de données", "bases de données"),
        ("fr", "les jeux", "jeu", "jeux"),
        ("es", "las luces", "luz", "luces"),
        ("es", "las estaciones", "estación", "estaciones"),
        ("es", "discos duros", "disco duro", "discos duros"),
        ("it", "i ragazzi", "ragazzo", "ragazzi"),
        ("pt", "as estações", "estação", "estações"),
        ("nl", "twee huizen", "huiz", "huizen"),
    ],
)
def test_inflections_are_found_where_the_entry_is_not_exact(language, text, entry, expected):
    for exact, wanted in ((False, [expected]), (True, [])):
        index = TermIndex([Entry(entry, "x", exact)])
        assert [text[one.start : one.end] for one in index.find(text, language=language)] == wanted


@pytest.mark.parametrize(
    ("language", "text", "entry"),
    [
        ("en", "with care", "car"),
        ("en", "some apples", "Apple"),
        ("en", "the news", "New"),
        ("de", "die Nass", "Nase"),
        ("ja", "cats", "cat"),
    ],
)
def test_other_words_are_no_inflections(language, text, entry):
    assert TermIndex([Entry(entry, "x", exact=False)]).find(text, language=language) == []


def test_an_entry_in_the_very_form_comes_before_an_inflection():
    index = TermIndex([Entry("battery", "Akku", False), Entry("batteries", "Akkus")])
    assert [one.entry.target for one in index.find("battery, batteries", language="en")] == [
        "Akku",
        "Akkus",
    ]
    assert dictionary_forms("as", "en") == [] and "haus" in dictionary_forms("häusern", "de")


def terms(source: str, entries: dict[str, str], exact: bool = True):
    return TermIndex([Entry(*entry, exact) for entry in entries.items()]).find(source)


def changed(text: str, edits) -> str:
    for start, end, word in reversed(edits):
        text = text[:start] + word + text[end:]
    return text


@pytest.mark.parametrize(
    ("before", "term", "expected"),
    [
        ("The ", "the cottage", ""),
        ("die ", "die Vereinten Nationen", ""),
        ("Ding ", "Ding Zeug", "Ding "),
        ("see ", "the house", "see "),
        ("Canada ", "a house", "Canada "),
        ("voir l'", "la note", "voir "),
        ("lee la ", "el libro", "lee "),
        ("voy a ", "la casa", "voy a "),
        ("the old ", "the house", "the old "),
        ("the ", "house", "the "),
    ],
)
def test_an_article_before_a_term_is_not_doubled(before, term, expected):
    assert without_article(before, term) == expected


def test_a_term_within_another_counts_once():
    entries = {"battery": "Akku", "battery pack": "Akku Paket"}
    for exact in (True, False):
        found = terms("the battery pack and the battery", entries, exact)
        missing = lacking(
            found,
            "die Akku Pakete und die Batterie" if not exact else "die Akku Paket und die Batterie",
        )
        assert [term.entry.source for term in missing] == ["battery"]
        assert lacking(found, "die Akku Paket und der Akku") == []


@pytest.mark.parametrize(
    ("language", "target", "translation", "present"),
    [
        ("de", "Apparat", "die Apparate", True),
        ("de", "Apparat", "des Apparats", True),
        ("de", "Apparat", "die Apparatik", False),
        ("de", "großes Haus", "in den großen Häusern", True),
        ("fr", "cheval", "les chevaux", True),
        ("fr", "toutou", "les toutous", True),
        ("fr", "toutou", "le toutouile", False),
        ("es", "luz", "las luces", True),
        ("es", "socio", "los socios", True),
        ("es", "socio", "el sociolo", False),
        ("fi", "talo", "talolla", True),
    ],
)
def test_an_inflection_has_the_endings_of_the_language(language, target, translation, present):
    assert (lacking(terms("a", {"a": target}, exact=False), translation, language) == []) is present


def test_what_forced_terms_damage() -> None:
    """A sentence that is whole but for its terms is not damaged. One that goes on after its end, or
    lost half of its other words is."""
    chance = random.Random(50)
    for _ in range(300):
        words = [
            "".join(chance.choices("bdfgklmnprstw", k=chance.randint(4, 9))) for _ in range(16)
        ]
        names, targets, (*before, left) = words[:2], words[2:5], words[5:]
        entries = [Entry(names[0], f"{targets[0]} {targets[1]}."), Entry(names[1], targets[2])]
        source = f"{before[0]} {names[0]} {before[1]} {names[1]} {' '.join(before[2:])}."
        terms = TermIndex(entries).find(source)
        first = " ".join(before).capitalize() + f" {left} {left}."
        for end in (".", "!", "?", "…"):
            whole = f"{before[0]} {targets[0]} {targets[1]}. {before[1]} {targets[2]}"
            rest = " ".join(before[2:])
            assert not is_damaged(terms, first, f"{whole} {rest}{end}")
            assert is_damaged(terms, first, f"{whole} {rest}{end}, {whole} {rest}{end}")
            assert is_damaged(terms, first, f"{targets[0]} {targets[1]}. {left}{end}")
