"""Tests of the detection among many languages."""

from __future__ import annotations

import logging

import pytest

from server.text.language_id import DETAILED_LANGUAGES, LanguageDetector, iso_code

MANY = (
    "af ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gu he hi hr hu hy id is it ja ka kk ko lt lv mk mn mr"
).split()


@pytest.mark.slow
def test_many_languages_are_compared_by_trigrams_and_the_others_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert len(MANY) > DETAILED_LANGUAGES and all(map(iso_code, MANY))
    detector = LanguageDetector([*MANY, "ace-Arab", "nus"])
    with caplog.at_level(logging.WARNING):
        detector.load()
    assert [record.getMessage() for record in caplog.records] == [
        "languages that source=auto cannot detect: ace-Arab, nus"
    ]
    for text, language in (
        ("Das Haus am See ist klein und hat einen Garten.", "de"),
        ("La maison est petite et le jardin est grand.", "fr"),
        ("Η γάτα κοιμάται στο σπίτι.", "el"),
    ):
        found = detector.detect(text)
        assert found[0].language == language
        assert {guess.language for guess in found} == set(MANY)
