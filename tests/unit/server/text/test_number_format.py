"""Numbers of a translation get the separators of its language, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.numbers import with_formats


@pytest.mark.parametrize(
    ("source", "target", "languages", "expected"),
    [
        (
            "It costs 1,234.50 euros.",
            "Es kostet 1,234.50 Euro.",
            ("en", "de"),
            "Es kostet 1.234,50 Euro.",
        ),
        ("12.5 MB of 3.75", "12.5 MB von 3.75", ("en", "de"), "12,5 MB von 3,75"),
        ("Es sind 1.234,5 km.", "There are 1.234,5 km.", ("de", "en"), "There are 1,234.5 km."),
        ("12,000 people", "12,000 personnes", ("en", "fr"), "12\u202f000 personnes"),
        ("12 000 personnes", "12 000 people", ("fr", "en"), "12,000 people"),
        ("2.5 and 2.5", "2.5 und 2.5", ("en", "de"), "2,5 und 2,5"),
        ("already 2.5", "schon 2,5", ("en", "de"), "schon 2,5"),
        (
            "version 4.18.2 of 2024-05-17 at 10:30",
            "4.18.2 2024-05-17 10:30",
            ("en", "de"),
            "4.18.2 2024-05-17 10:30",
        ),
        ("5 000 000 Leute", "5 000 000 people", ("de", "en"), "5,000,000 people"),
        ("Plus de 1,000 femmes", "More than 1,000 women", ("fr", "en"), "More than 1,000 women"),
        ("1,125 kg und 0,125", "1,125 kg and 0,125", ("de", "en"), "1.125 kg and 0.125"),
        ("2.5", "2.5", ("en", "xx"), "2.5"),
        ("2.5", "2.5", ("en", "ja"), "2.5"),
    ],
)
def test_separators(source: str, target: str, languages: tuple[str, str], expected: str) -> None:
    assert with_formats(source, target, *languages, everything=True) == expected


@given(st.text("0123456789., \u00a0/-{a", max_size=30))
def test_digits_and_length_stay(text: str) -> None:
    written = with_formats(text, text, "en", "de", everything=True)
    assert len(written) == len(text)
    assert [character for character in written if character.isalnum()] == [
        character for character in text if character.isalnum()
    ]


@pytest.mark.parametrize(
    ("source", "target", "languages", "expected"),
    [
        (
            "Perl 5.014 or release 3.12",
            "Perl 5,014 ou version 3,12",
            ("en", "fr"),
            "Perl 5.014 ou version 3.12",
        ),
        (
            "It takes 3.12 s at 7.5 km.",
            "Cela prend 3,12 s à 7.5 km.",
            ("en", "fr"),
            "Cela prend 3,12 s à 7,5 km.",
        ),
        (
            "It has PHP 8.1, 8.2 and 8.3.",
            "Il a PHP 8,1, 8,2 et 8.3.",
            ("en", "fr"),
            "Il a PHP 8.1, 8.2 et 8.3.",
        ),
        ("Done in 2.5 hours", "In 2,5 Stunden fertig", ("en", "de"), "In 2,5 Stunden fertig"),
        ("1,234.56 dollars", "1.234.56 Dollar", ("en", "de"), "1.234,56 Dollar"),
        (
            "Rund 1.234 Leute um 14.30 Uhr",
            "About 1.234 people at 14,30",
            ("de", "en"),
            "About 1,234 people at 14.30",
        ),
        (
            "am 17.05.2024, 192.168.100.200",
            "on 17,05,2024, 192.168.100.200",
            ("de", "en"),
            "on 17.05.2024, 192.168.100.200",
        ),
        (
            "3.5m wide, €1,999.99 or £7.50",
            "3.5m breit, €1,999.99 oder £7.50",
            ("en", "de"),
            "3,5m breit, €1.999,99 oder £7,50",
        ),
        ("Perl 5.014 und 3,5 %", "Perl 5.014 and 3,5 %", ("de", "en"), "Perl 5.014 and 3.5 %"),
    ],
)
def test_only_what_is_certain_is_written_in_the_other_format(
    source, target, languages, expected
) -> None:
    assert with_formats(source, target, *languages) == expected


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
