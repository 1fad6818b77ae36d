"""Numbers are found in a text, missed in a translation, and restored if the model loses them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.numbers import find_numbers, lacks_numbers, number_values
from server.text.placeholders import mask, restore


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs $25.50, not 30%.", ["$25.50", "30%"]),
        ("On 2021-05-03 at 10:30.", ["2021-05-03", "10:30"]),
        ("1\u202f234,56 € in 2020 300 people", ["1\u202f234,56 €", "2020", "300"]),
        ("pages 10-12, (25), -5 °C, 3/4 of 100.", ["10-12", "25", "-5", "3/4", "100"]),
        ("A4, 21st, COVID-19, 3.5kg, 1990s", []),
        ("see https://example.org/2021/x", []),
        ("no number", []),
    ],
)
def test_numbers_are_found_outside_words(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in find_numbers(text)] == expected


@pytest.mark.parametrize(
    ("source", "target", "lacking"),
    [
        ("25 euros and 50 cents", "2525", True),
        ("25 euros and 50 cents", "25 Euro und 50 Cent", False),
        ("1,234.5 people", "1.234,5 Leute", False),
        ("3,5 Meter", "35 mins", True),
        ("version 1.2.3", "Version 1.2.3", False),
        ("12,000 people", "12 000 personnes", False),
        ("I have 3 cats", "Ich habe drei Katzen", False),
        ("I have 3 cats", "Ich habe 33 Katzen", True),
        ("in 1989", "im Jahr neunzehnhundertneunundachtzig", True),
        ("on 03/05/2021", "am 3. 5. 2021", False),
        ("the A4", "die Straße", False),
        ("nothing", "nichts 7", False),
    ],
)
def test_a_missing_number_is_detected_unless_it_may_be_written_as_a_word(
    source: str, target: str, lacking: bool
) -> None:
    assert lacks_numbers(source, target) is lacking


@given(st.text("0123456789 .,:-/$%€\u00a0aé", max_size=40))
def test_a_text_does_not_lack_its_own_numbers(text: str) -> None:
    assert not lacks_numbers(text, text)
    assert not any(value.startswith("0") and value != "0" for value in number_values(text))
    without = list(text)
    for start, end in find_numbers(text):
        without[start:end] = "x" * (end - start)
    assert find_numbers("".join(without)) == []


@given(st.text("ab 12.,($", max_size=30), st.text("ab .", max_size=12))
def test_restored_numbers_do_not_merge(text: str, target: str) -> None:
    read, marks = mask(text, find_numbers(text))
    given = number_values("; ".join(text[start:end] for start, end in find_numbers(text)))
    assert restore(marks, read, read, ()) == text
    assert not given - number_values(restore(marks, read, target, ()))


@pytest.mark.parametrize(
    "text",
    ["We paid 250 euros in 1998.", "1998 was it", "look 😀 at 4711 https://example.org/x", "it was 15:30 or 16:45"],
)
def test_the_server_restores_numbers_that_the_model_loses(client, text: str) -> None:
    answer = client.post("/translate", json={"q": text, "source": "en", "target": "de"}).json()["translatedText"]
    assert not number_values(text) - number_values(answer)
    assert sorted(answer) == sorted(text)  # the fake model reverses all characters, digits too
