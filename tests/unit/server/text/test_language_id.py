"""Language detection: short texts with what the request says about them, unsure texts, and languages that are not served."""

from __future__ import annotations

import logging

import pytest

from server.text.language_id import DETAILED_LANGUAGES, LanguageDetector, accepted_languages, iso_code

pytestmark = pytest.mark.slow  # loads the statistics of 28 languages


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector(("de", "en", "es", "fr"))


ENGLISH = ["Save changes", "Delete file", "The file could not be opened."]


@pytest.mark.parametrize("text", ["Hello", "No", "Cancel"])
def test_a_short_english_word_is_not_spanish_where_the_request_says_otherwise(detector, text):
    assert detector.detect(text, target="de")[0].language == "en"
    assert detector.detect(text, target="es")[0].language == "en"
    assert detector.detect(text, accepted=("en-GB", "en"))[0].language == "en"
    assert [guesses[0].language for guesses in detector.detect_all([text, *ENGLISH])] == ["en"] * 4


GREETINGS = {
    "en": ["Hello.", "Hi!", "Bye", "Good morning.", "Thank you.", "yes"],
    "de": ["Hallo.", "Guten Tag!", "Tschüss", "Guten Morgen.", "Danke.", "ja"],
    "fr": ["Salut !", "Bonjour.", "Au revoir", "Bonsoir.", "Merci.", "oui"],
    "es": ["¡Hola!", "Buenos días.", "Adiós", "Buenas noches.", "Gracias.", "sí"],
}


@pytest.mark.parametrize("language", GREETINGS)
def test_a_greeting_is_in_its_language_alone_repeated_and_with_every_target(detector, language):
    greetings = GREETINGS[language]
    for target in ("", "de", "en", "es", "fr"):
        for text in greetings:
            assert detector.detect(text, target)[0].language == language, (text, target)
        assert {guesses[0].language for guesses in detector.detect_all(greetings, target)} == {language}


@pytest.mark.parametrize("text", ["Hello.", "Cancel", "1234", "Wo ist der Hund?"])
@pytest.mark.parametrize("target", ["", "de"])
def test_a_repeated_text_is_detected_as_once(detector, text, target):
    assert detector.detect_all([text] * 3, target) == [detector.detect(text, target)] * 3
    with_other = detector.detect_all([text, "No", "Save"], target)
    assert detector.detect_all([text, "No", text, "Save", text], target) == [with_other[i] for i in (0, 1, 0, 2, 0)]


def test_a_greeting_of_two_served_languages_is_unsure():
    best = LanguageDetector(("de", "en", "nl")).detect("Hallo")[0]
    assert best.confidence < 60 and {best.language, *(one.language for one in best.alternatives)} == {"de", "nl"}


def test_the_other_texts_decide_for_every_language(detector):
    spanish = ["No", "Guardar cambios", "Eliminar archivo", "No se pudo abrir el archivo."]
    assert [guesses[0].language for guesses in detector.detect_all(spanish)] == ["es"] * 4
    german = ["Start", "Abbrechen", "Datei speichern", "Die Datei fehlt."]
    assert [guesses[0].language for guesses in detector.detect_all(german, "en")] == ["de"] * 4


@pytest.mark.parametrize("other", ["", "42", "!"])
def test_a_text_without_letters_says_nothing_about_the_others(detector, other):
    assert detector.detect_all([other, "Hello."], "de")[1] == detector.detect("Hello.", "de")


def test_a_clear_text_overrides_what_the_request_says(detector):
    found = detector.detect_all([*ENGLISH, "Die Datei konnte nicht geöffnet werden."], "en", ("es",))
    assert [guesses[0].language for guesses in found] == ["en", "en", "en", "de"]
    found = detector.detect_all(["Where is the dog?", "Wo ist der Hund?"], "fr")
    assert [guesses[0].language for guesses in found] == ["en", "de"]


def test_an_unsure_language_has_a_low_confidence_and_alternatives(detector):
    best = detector.detect("No")[0]
    assert best.confidence < 60 and len(best.alternatives) >= 2
    assert not detector.detect("The station is behind the old church.")[0].alternatives


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Dove posso trovare la stazione più vicina?", "it"),
        ("Onde fica a estação de trem mais próxima?", "pt"),
        ("こんにちは世界", "ja"),
        ("Где находится вокзал?", "ru"),
        ("Dobrý den, jak se máte?", "cs"),  # Slovak is as likely
        ("Hvordan har du det i dag?", "da"),
    ],
)
def test_a_language_that_is_not_served_is_named(detector, text, language):
    best = detector.detect(text)[0]
    assert (best.language, best.confidence >= 60) == (language, True)
    assert LanguageDetector(("en",)).detect(text)[0].language == language


def test_a_text_without_letters_has_no_confidence(detector):
    guesses = detector.detect("1234 !?")
    assert guesses[0].language == "en" and {guess.confidence for guess in guesses} == {0}


def test_the_header_accept_language():
    assert accepted_languages("de-AT, de;q=0.9, en;q=0.5, *;q=0.1") == ("de-AT", "de", "en")
    assert accepted_languages(None) == accepted_languages("") == ()
    assert len(accepted_languages(",".join(["en"] * 100))) == 5


MANY = (
    "af ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gu he hi hr hu hy id is it ja ka kk ko lt lv mk mn mr"
).split()


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
