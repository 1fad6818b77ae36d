"""Flags by text: true faults, and correct translations that look like faults."""

from __future__ import annotations

import pytest

from server.text.languages import is_evidently_in
from server.text.translation_checks import (
    ends_early,
    is_copied,
    may_repeat,
    ordinary_words,
    repeats,
)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("The dog is asleep.", "Der Hund der Hund der Hund schläft."),
        ("He went home.", "Er ging nach Hause, er ging nach Hause."),
        ("It is big.", "Es ist ist ist groß."),
        ("La casa es grande.", "The house the house is is is big."),
        ("Le chat dort.", "The cat is asleep and the cat is asleep and the cat is asleep."),
        ("I see the sea.", "Veo el mar de la mar de la mar."),
        ("I see the sea.", "Je vois, je vois, je vois la mer."),
        ("no no no", "nein nein nein nein nein nein"),
    ],
)
def test_repetition(source, target):
    assert repeats(source, target) and may_repeat([hash(word) for word in target.split()] + [1, 1])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("The cat sleeps.", "Die Katze schläft."),
        ("I am very, very tired.", "Ich bin sehr, sehr müde."),
        ("The people who call the mayor", "Die Leute, die die Bürgermeisterin anrufen"),
        ("He said that that was wrong.", "Er sagte, dass das falsch war."),
        ("Nous nous lavons.", "We wash ourselves."),
        ("We wash ourselves.", "Nous nous lavons."),
        ("No, no, no, never!", "Nein, nein, nein, niemals!"),
        ("Day after day after day", "Tag für Tag für Tag"),
        ("He is getting better and better.", "Es geht ihm immer besser und besser."),
        ("One billion: 1 000 000 000", "Eine Milliarde: 1 000 000 000"),
        ("Call 030 030 030 030 now", "Rufen Sie 030 030 030 030 an"),
        ("Ha ha ha ha!", "Ha ha ha ha!"),
        ("Ring a ring a ring a roses", "Ring a ring a ring a roses"),
        ("The more you read, the more you know.", "Je mehr man liest, desto mehr weiß man."),
        ("", ""),
    ],
)
def test_no_repetition(source, target):
    assert not repeats(source, target)


@pytest.mark.parametrize(
    "text",
    [
        "The committee decided to wait.",
        "we have to go home now",
        "Das Wetter ist heute wieder sehr schön.",
        "Il ne faut pas vendre la peau de l'ours.",
        "Más vale tarde que nunca en la vida.",
        "今日はとても暑いですね",
    ],
)
def test_copied(text):
    assert is_copied(text, text)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Berlin", "Berlin"),
        ("Hotel Restaurant Bar Casino Taxi", "Hotel Restaurant Bar Casino Taxi"),
        (
            "Angela Merkel, Emmanuel Macron and Joe Biden",
            "Angela Merkel, Emmanuel Macron und Joe Biden",
        ),
        ("Real Madrid 3, FC Barcelona 2", "Real Madrid 3, FC Barcelona 2"),
        ("12 345 678 90", "12 345 678 90"),
        ("git commit --amend", "git commit --amend"),
        ("`for x in range(10): print(x)`", "`for x in range(10): print(x)`"),
        ("{name} {count} %s %d", "{name} {count} %s %d"),
        ("https://example.org/a b@example.org", "https://example.org/a b@example.org"),
        ("restaurant", "restaurant"),
        ("animal central", "animal central"),
        ('The film "la vie est belle et longue"', 'Der Film "la vie est belle et longue"'),
        ("IBM SAP BMW VW", "IBM SAP BMW VW"),
        ("The station is closed.", "Der Bahnhof ist geschlossen."),
        ("O Tannenbaum", "O Tannenbaum"),
        ("iPhone 15 Pro Max", "iPhone 15 Pro Max"),
        ("", ""),
    ],
)
def test_not_copied(source, target):
    assert not is_copied(source, target)


def test_ordinary_words_leave_out_names_quotations_and_protected_spans():
    assert ordinary_words(
        'He said "bonjour tout le monde" to {name} in Paris at 5 pm: www.example.org'
    ) == [
        "said",
        "to",
        "in",
        "at",
        "pm",
    ]


@pytest.mark.parametrize(
    ("source", "target", "language", "early"),
    [
        ("Where is the station?", "Wo ist der", "de", True),
        ("He came, and she left.", "Er kam,", "de", True),
        ("Where is the station?", "Wo ist der Bahnhof?", "de", False),
        ("A title", "Ein Titel", "de", False),
        ("He said: “Go!”", "Er sagte: „Geh!“", "de", False),
        ("Where is the station?", "สถานีอยู่ที่ไหน", "th", False),
        ("", "", "de", False),
    ],
)
def test_ends_early(source, target, language, early):
    assert ends_early(source, target, language) is early


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The house is small and old.", "en"),
        ("Das Haus ist klein und alt.", "de"),
        ("La maison est petite mais très belle.", "fr"),
        ("La casa es pequeña pero muy bonita.", "es"),
    ],
)
def test_evident_languages(text, language):
    assert [
        code for code in ("en", "de", "fr", "es", "it", "pt", "nl") if is_evidently_in(text, code)
    ] == [language]
