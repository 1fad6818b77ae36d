"""Texts with and without letters of a language, outside what every translation keeps."""

from __future__ import annotations

import pytest

from server.text.languages import has_letters
from server.text.syntax import plain
from server.text.tagged import Tagged


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Hello", "en", True),
        ("42 + 1 = 43!", "en", False),
        ("😀🎉", "en", False),
        ("https://example.org/a?b=c", "en", False),
        ("someone@example.org, www.example.org", "en", False),
        ("see https://example.org", "en", True),
        ("你好", "en", False),
        ("你好", "zh", True),
        ("привет", "ru", True),
        ("Éclair", "fr", True),
        ("ﬁne", "en", True),
        ("ＡＢＣ", "en", True),
        ("", "en", False),
    ],
)
def test_a_text_is_translatable_if_it_has_letters_of_the_language_outside_addresses(
    text, language, expected
):
    assert has_letters(plain.scan(Tagged(text)).bare, language) is expected
