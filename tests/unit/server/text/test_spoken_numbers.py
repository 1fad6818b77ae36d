"""Ordinals, times and currencies whose form is that of a language: what a translation lacks is
decoded again in its form."""

from __future__ import annotations

import random

import pytest

from server.text.exact_tokens import lost_numbers, lost_tokens
from server.text.finishing import Finished
from server.text.numbers import spoken, with_endings
from server.text.spans import edited
from server.text.tagged import Code, Tagged
from server.translation.finish import half_edits

ROMAN = {
    5: "V",
    9: "IX",
    12: "XII",
    14: "XIV",
    16: "XVI",
    18: "XVIII",
    19: "XIX",
    20: "XX",
    21: "XXI",
}
ENGLISH = {
    int(form[:-2]): form for form in "1st 2nd 3rd 11th 12th 13th 21st 42nd 103rd 111th".split()
}


@pytest.mark.parametrize("number", ENGLISH)
def test_an_ordinal_that_is_lost_has_the_form_of_the_language(number: int) -> None:
    given = f"He came {ENGLISH[number]}."
    forms = {"de": f"{number}.", "fr": "1er" if number == 1 else f"{number}e", "es": f"{number}.º"}
    for language, form in forms.items():
        assert spoken(given, f"Es {form} so.", language) == []
        # words for 1 are articles too
        expected = [] if number == 1 else [(8, 8 + len(ENGLISH[number]), form)]
        assert spoken(given, "No such.", language) == expected
    assert spoken(f"Il est le {number}e.", "He came 999th.", "en")[number == 1 :][:1] == (
        [] if number == 1 else [(10, 11 + len(str(number)), ENGLISH[number])]
    )
    assert spoken(given, "No such.", "xx") == []


@pytest.mark.parametrize("number", ROMAN)
def test_centuries_are_compared_by_value(number: int) -> None:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 * (number > 20), "th")
    english = f"in the {number}{suffix} century"
    assert [form for *_, form in spoken(english, "au siècle", "fr")] == [ROMAN[number] + "e"]
    assert [form for *_, form in spoken(english, "el siglo", "es")] == [ROMAN[number]]
    assert [form for *_, form in spoken(english, "im Jahrhundert", "de")] == [f"{number}."]
    for source in (f"au {ROMAN[number]}e siècle", f"en el siglo {ROMAN[number]}"):
        assert [form for *_, form in spoken(source, "in the 99th century", "en")] == [
            f"{number}{suffix}"
        ]
        assert spoken(source, english, "en") == []


def test_times_are_compared_as_a_whole() -> None:
    chance = random.Random(5)
    for _ in range(200):
        hour, minute = chance.randint(1, 23), chance.randint(1, 59)
        for source in (
            f"Um {hour} Uhr {minute} kam er",
            f"À {hour} h {minute:02} il vint",
            f"à {hour}h{minute:02}",
        ):
            torn = f"At {hour} a.m. {minute}, he came"
            assert [form for *_, form in spoken(source, torn, "en")] == [f"{hour}:{minute:02}"]
            assert [form for *_, form in spoken(source, torn, "fr")] == [f"{hour} h {minute:02}"]
            for said in (
                f"{hour}:{minute:02}",
                f"{hour % 12 or 12}:{minute:02} p.m.",
                f"{hour}.{minute:02} Uhr",
                f"{hour:02} h {minute:02}",
            ):
                assert spoken(source, f"at {said}", "en") == []


@pytest.mark.parametrize(
    "text",
    [
        "Le 7 octobre",
        "De 5 h. à 6 h.",
        "a 3D film of 1990s",
        "5 h 30% of it",
        "siglos después",
        "COVID-19th",
        "Ver Figura 1.1",
        "Ve a casa",
    ],
)
def test_what_is_no_ordinal_and_no_time(text: str) -> None:
    assert spoken(text, "nothing", "en") == []


WRITTEN = {
    "de": ("Es beginnt um {}:{} Uhr.", "Es beginnt um {} Uhr."),
    "fr": ("Il commence à {} h {} lundi.", "Il commence à {} heures."),
    "es": ("Empieza a las {}:{}.", "Empieza a las {}."),
}


@pytest.mark.parametrize("language", WRITTEN)
def test_a_time_of_a_clock_of_12_hours_keeps_its_half_of_the_day(language: str) -> None:
    """Where a translation has no word for the half, it has the time of 24 hours."""
    chance = random.Random(language)
    for hour in range(1, 13):
        for minute in (*chance.sample(range(1, 60), 4), 0):
            for half in ("a.m.", "p.m.", "pm", "a. m."):
                given = (
                    f"It starts at {hour}:{minute:02} {half}"
                    if minute
                    else f"It starts at {hour} {half}"
                )
                form, text = WRITTEN[language][minute == 0], f"{given}, on Monday."
                written, wanted = [
                    form.format(each, f"{minute:02}")
                    for each in (hour, hour % 12 + 12 * half.startswith("p"))
                ]
                edits = half_edits(text, written)
                assert edited(written, edits)[0] == wanted, text
                assert not half_edits(text, wanted), text
                assert not lost_numbers(text, wanted, language), text
                assert not half_edits(text, f"{written} ({half})".replace("a. m.", "a.m."))
    assert not half_edits("Come at 6pm.", "Komm um 6pm.")
    both = "It is open from 6:45 a.m. to 6:45 p.m."
    assert not half_edits(both, WRITTEN[language][0].format(6, 45))
    pills = "Take 2 pills at 8 a.m. and 2 pills at 8 p.m."
    assert half_edits(pills, "Nimm 2 um 8 Uhr und 2 um 8 Uhr vor dem Abendessen.") == [
        (25, 26, "20")
    ]
    assert not half_edits(pills, "Nimm 2 um 8 Uhr und 2 um 20 Uhr.")
    assert not half_edits(
        "We have 6 cats. Come at 6 p.m.", "Wir haben 6 Katzen. Komm heute Abend um 6."
    )


PARTS = {
    "am": "de la madrugada|de la mañana|por la mañana|Uhr morgens|Uhr am Morgen|Uhr vormittags"
    "|heures du matin|in the morning|a.m.|am|mañana por la mañana|heures demain matin",
    "pm": "de la tarde|de la noche|por la noche|Uhr abends|Uhr am Abend|Uhr nachmittags"
    "|heures de l'après-midi|heures du soir|o'clock in the evening|in the afternoon|p. m."
    "|mañana por la noche|esta noche|Uhr morgen Abend|heures demain soir|h ce soir|tonight",
}


@pytest.mark.parametrize("half", PARTS)
def test_words_of_the_part_of_the_day_are_a_half_of_it(half: str) -> None:
    for words in PARTS[half].split("|"):
        for hour in range(6, 12):
            text, other = f"Son las {hour} {words}, hoy.", "pm" if half == "am" else "am"
            for form in ("It is {} {}.", "It is {}{}.", "It is {} {}. today"):
                wrong = form.format(hour, other)
                edits = half_edits(text, wrong)
                assert edited(wrong, edits)[0] == form.format(hour, half), text
                assert not half_edits(text, form.format(hour, half)), text
            written = f"Es ist {hour} Uhr."
            edits = half_edits(text, written)
            assert edited(written, edits)[0] == f"Es ist {hour + 12 * (half == 'pm')} Uhr.", text
            for said in ("It is {} in the evening.", "They are {} of the day."):
                assert not half_edits(text, said.format(hour))
    both = "Abre a las 9 de la mañana y a las 9 de la noche."
    assert half_edits(both, "It opens at 9 a.m. and at 9 A.M.") == [(28, 29, "P")]
    assert not half_edits("3 men work at night.", "3 hommes travaillent.")
    assert not half_edits("Las 12 de la noche", "12 a.m.")
    assert not half_edits("Um 11 Uhr mittags", "At 11 a.m.")


def test_codes_stay_at_their_words_where_an_hour_changes() -> None:
    source = Tagged("at 6 p.m. here", (Code(10, 10, "<b>", "sc", 1), Code(14, 14, "</b>", "ec", 1)))
    finished = Finished(source, "um 6 Uhr hier", ((0, 9, 9), (1, 13, 13)))
    assert finished.edited([(3, 4, "18")]).tagged.write() == "um 18 Uhr <b>hier</b>"


def test_a_code_without_text_stays_so_where_the_text_around_it_changes() -> None:
    text = "at 6 p.m. now"
    for at in range(len(text) + 1):
        finished = Finished(Tagged(text, (Code(at, at, "<b>"),)), text, ((0, at, at),))
        [(_, start, end)] = finished.edited([(3, 9, "18 Uhr")]).places
        assert start == end


def test_english_ordinals_have_their_endings() -> None:
    for number in range(1, 131):
        right = with_endings(f"{number}th")
        teen = number % 100 in (11, 12, 13)
        assert right == f"{number}" + (
            "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
        )
        assert with_endings(f"the {number}st one, x{number}rd") == f"the {right} one, x{number}rd"


@pytest.mark.parametrize("code", ["CHF", "USD", "SEK"])
def test_a_currency_is_not_lost(code: str) -> None:
    for source in (f"It costs {code} 1,200.50 now.", f"It costs 12 {code} now."):
        lost = lost_tokens(
            source, "Es kostet jetzt " + source[9:-5].replace(code, "").strip() + ".", "de"
        )
        assert code in [source[each.start : each.end] for each in lost or ()]
    for target in (f"Es kostet 12 {code}.", "Es kostet 12 Dollar.", "Es kostet 12 $."):
        lost = lost_tokens(f"It costs 12 {code}.", target, "de")
        assert code not in [f"It costs 12 {code}."[each.start : each.end] for each in lost or ()]
