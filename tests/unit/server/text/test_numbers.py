"""Numbers are found in a text, missed in a translation, restored if the model loses them, and written
with the separators of the language."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from server.text.finishing import finish
from server.text.numbers import number_difference, numbers, with_formats
from server.text.reading import masked
from server.text.tagged import Code, Tagged
from tests.support.texts.matched import marked, unmarked


def find_numbers(text: str) -> list[tuple[int, int]]:
    return [(number.start, number.end) for number in numbers(text) if number.whole]


def values(text: str) -> Counter[str]:
    return Counter([value for number in numbers(text) for value in number.values])


@pytest.mark.parametrize(
    "row",
    [
        "It costs ⟦$25.50⟧, not ⟦30%⟧.",
        "On ⟦2021-05-03⟧ at ⟦10:30⟧.",
        "⟦1\u202f234,56 €⟧ in ⟦2020⟧ ⟦300⟧ people",
        "pages ⟦10-12⟧, (⟦25⟧), ⟦-5⟧ °C, ⟦3/4⟧ of ⟦100⟧.",
        "A4, 21st, COVID-19, 3.5kg, 1990s",
        "see https://example.org/2021/x",
        "no number",
    ],
)
def test_numbers_are_found_outside_words(row: str) -> None:
    assert marked(unmarked(row), find_numbers(unmarked(row))) == row


@pytest.mark.parametrize(
    ("source", "target", "same"),
    [
        ("25 euros and 50 cents", "2525", False),
        ("25 euros and 50 cents", "25 Euro und 50 Cent", True),
        ("1,234.5 people", "1.234,5 Leute", True),
        ("3,5 Meter", "35 mins", False),
        ("version 1.2.3", "Version 1.2.3", True),
        ("12,000 people", "12 000 personnes", True),
        ("I have 3 cats", "Ich habe drei Katzen", True),
        ("I have 3 cats", "Ich habe 33 Katzen", False),
        ("in 1989", "im Jahr neunzehnhundertneunundachtzig", False),
        ("on 03/05/2021", "am 3. 5. 2021", True),
        ("the A4", "die Straße", True),
        ("nothing", "nichts 7", True),
        ("En el siglo XIX había 3 casas", "3 houses in the 19th century", True),
        ("En el siglo XIX había 3 casas", "3 houses in the 18th century", False),
        ("I have 0 books.", "Ich habe 00 Bücher.", False),
        ("I have 5 books.", "Ich habe 5 5 Bücher.", False),
        ("I have 2 books.", "Ich habe 2 Bücher und 3 Hefte.", False),
        ("1,234.56 dollars", "1.234,56 Dollar", True),
        ("1,234.56 dollars", "1.234.56 Dollar", False),
        ("ISBN 978-3-16-148410-0", "ISBN 978-16-148410-0", False),
    ],
)
def test_a_missing_number_is_detected_unless_it_may_be_written_as_a_word(
    source: str, target: str, same: bool
) -> None:
    difference = number_difference(source, target)
    assert bool(difference.lacks or difference.adds) is not same


@given(st.text("0123456789 .,:-/$%€\u00a0aé", max_size=40))
def test_a_text_does_not_lack_its_own_numbers(text: str) -> None:
    assert number_difference(text, text) == ((), (), frozenset())
    assert not any(value.startswith("0") and value.strip("0.") for value in values(text))
    without = list(text)
    for start, end in find_numbers(text):
        without[start:end] = "x" * (end - start)
    assert find_numbers("".join(without)) == []


@given(st.text("ab 12.,($", max_size=30), st.text("ab .", max_size=12))
def test_restored_numbers_do_not_merge(text: str, target: str) -> None:
    assume(not re.search(r"\d{3}", text))  # the space between 1 and 111 would make them one number
    codes = [
        Code(*number, word="number", equiv=text[slice(*number)]) for number in find_numbers(text)
    ]
    tagged = Tagged(text, tuple(codes))
    reading = masked(tagged, {})
    given = values("; ".join(text[start:end] for start, end in find_numbers(text)))
    assert " ".join(finish(tagged, reading, reading.text, ()).text.split()) == " ".join(
        text.split()
    )
    assert not given - values(finish(tagged, reading, target, ()).text)


FORMATS = """
en de all | It costs 1,234.50 euros. | Es kostet 1,234.50 Euro. | Es kostet 1.234,50 Euro.
en de all | 12.5 MB of 3.75 | 12.5 MB von 3.75 | 12,5 MB von 3,75
de en all | Es sind 1.234,5 km. | There are 1.234,5 km. | There are 1,234.5 km.
en fr all | 12,000 people | 12,000 personnes | 12\u202f000 personnes
fr en all | 12 000 personnes | 12 000 people | 12,000 people
en de all | 2.5 and 2.5 | 2.5 und 2.5 | 2,5 und 2,5
en de all | already 2.5 | schon 2,5 | =
en de all | version 4.18.2 of 2024-05-17 at 10:30 | 4.18.2 2024-05-17 10:30 | =
de en all | 5 000 000 Leute | 5 000 000 people | 5,000,000 people
fr en all | Plus de 1,000 femmes | More than 1,000 women | =
de en all | 1,125 kg und 0,125 | 1,125 kg and 0,125 | 1.125 kg and 0.125
en xx all | 2.5 | 2.5 | =
en ja all | 2.5 | 2.5 | =
en fr | Perl 5.014 or release 3.12 | Perl 5,014 ou version 3,12 | Perl 5.014 ou version 3.12
en fr | It takes 3.12 s at 7.5 km. | Cela prend 3,12 s à 7.5 km. | Cela prend 3,12 s à 7,5 km.
en fr | It has PHP 8.1, 8.2 and 8.3. | Il a PHP 8,1, 8,2 et 8.3. | Il a PHP 8.1, 8.2 et 8.3.
en de | Done in 2.5 hours | In 2,5 Stunden fertig | =
en de | 1,234.56 dollars | 1.234.56 Dollar | 1.234,56 Dollar
de en | Rund 1.234 Leute um 14.30 Uhr | About 1.234 people at 14,30 | About 1,234 people at 14.30
de en | am 17.05.2024, 192.168.100.200 | on 17,05,2024, 192.168.100.200 | on 17.05.2024, 192.168.100.200
en de | 3.5m wide, €1,999.99 or £7.50 | 3.5m breit, €1,999.99 oder £7.50 | 3,5m breit, €1.999,99 oder £7,50
de en | Perl 5.014 und 3,5 % | Perl 5.014 and 3,5 % | Perl 5.014 and 3.5 %
"""
"""Languages (`all` numbers are amounts), a text, its translation, and this with the separators of its
language, or `=`."""


@pytest.mark.parametrize("row", FORMATS.strip().split("\n"))
def test_amounts_have_the_separators_of_the_language(row: str) -> None:
    languages, source, target, expected = row.split(" | ")
    given, wanted, *everything = languages.split()
    written = with_formats(source, target, given, wanted, bool(everything))
    assert written == (target if expected == "=" else expected)


@given(st.text("0123456789., \u00a0/-{a", max_size=30))
def test_digits_and_length_stay(text: str) -> None:
    written = with_formats(text, text, "en", "de", everything=True)
    assert len(written) == len(text)
    assert [character for character in written if character.isalnum()] == [
        character for character in text if character.isalnum()
    ]


def test_a_request_asks_for_it(client) -> None:
    asked = {"q": "a 1.5 b", "source": "en", "target": "de"}
    answers = [
        client.post("/translate", json=asked | field).json()
        for field in ({}, {"localize_numbers": True})
    ]
    assert [sorted(answer["translatedText"].split()) for answer in answers] == [
        ["1.5", "a", "b"],
        ["1,5", "a", "b"],
    ]
