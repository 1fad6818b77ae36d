"""Numbers of a translation get the separators of its language, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.number_format import localize_numbers


@pytest.mark.parametrize(
    ("source", "target", "languages", "expected"),
    [
        ("It costs 1,234.50 euros.", "Es kostet 1,234.50 Euro.", ("en", "de"), "Es kostet 1.234,50 Euro."),
        ("12.5 MB of 3.75", "12.5 MB von 3.75", ("en", "de"), "12,5 MB von 3,75"),
        ("Es sind 1.234,5 km.", "There are 1.234,5 km.", ("de", "en"), "There are 1,234.5 km."),
        ("12,000 people", "12,000 personnes", ("en", "fr"), "12\u202f000 personnes"),
        ("12 000 personnes", "12 000 people", ("fr", "en"), "12,000 people"),
        ("2.5 and 2.5", "2.5 und 2.5", ("en", "de"), "2,5 und 2,5"),
        ("already 2.5", "schon 2,5", ("en", "de"), "schon 2,5"),
        ("version 4.18.2 of 2024-05-17 at 10:30", "4.18.2 2024-05-17 10:30", ("en", "de"), "4.18.2 2024-05-17 10:30"),
        ("2.5", "2.5", ("en", "xx"), "2.5"),
        ("2.5", "2.5", ("en", "ja"), "2.5"),
    ],
)
def test_separators(source: str, target: str, languages: tuple[str, str], expected: str) -> None:
    assert localize_numbers(source, target, *languages) == expected


@given(st.text("0123456789., \u00a0/-{a", max_size=30))
def test_digits_and_length_stay(text: str) -> None:
    written = localize_numbers(text, text, "en", "de")
    assert len(written) == len(text)
    assert [character for character in written if character.isalnum()] == [
        character for character in text if character.isalnum()
    ]


def test_a_request_asks_for_it(client) -> None:
    asked = {"q": "a 1.5 kWh b", "source": "en", "target": "de"}
    answers = [client.post("/translate", json=asked | field).json() for field in ({}, {"localize_numbers": True})]
    assert [sorted(answer["translatedText"].split()) for answer in answers] == [
        ["1.5", "a", "b", "kWh"],
        ["1,5", "a", "b", "kWh"],
    ]
