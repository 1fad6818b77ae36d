"""Addresses, emoji, words in a foreign script and capitals are kept by any model."""

from __future__ import annotations

import re
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text import exact_tokens as exact
from server.text.exact_tokens import (
    exact_tokens,
    kept_spans,
    lost_numbers,
    lost_tokens,
    respelled,
    without_overlaps,
    words,
)
from server.text.finishing import finish
from server.text.reading import is_all_caps, masked
from server.text.syntax import plain
from server.text.tagged import Code, Tagged
from tests.support.texts.matched import marked, matches, unmarked

KEPT = "A4 1998 notes.txt https://example.org/a?b=c#d me@example.org 😀 👩‍👩‍👧 🇩🇪 www.example.org →".split()
parts = st.lists(
    st.sampled_from([*KEPT, "word", "two words", ".", ",", " ", "  ", "(", ")", "!"]), max_size=12
)


@given(
    parts.map("".join)
    | st.text("aB4_-.@/ \u0663", max_size=50)
    | st.text("a.", min_size=38, max_size=44)
)
def test_the_fast_test_for_names_has_no_false_negatives(text):
    found = list(exact_tokens(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "may_hold", lambda _: True)
        patch.setattr(exact, "_MAY_HOLD", re.compile(""))
        assert exact_tokens.__wrapped__(text) == found


@given(parts.map("".join) | st.text(max_size=60))
def test_masking_and_restoring_is_the_identity(text):
    spans = without_overlaps([*matches(text), *exact_tokens(text)])
    codes = [
        Code(span.start, span.end, kind="x", equiv=text[span.start : span.end]) for span in spans
    ]
    tagged = Tagged(text.strip(), tuple([code for code in codes if code.end <= len(text.strip())]))
    tagged = tagged if text == text.strip() else Tagged(text.strip())
    reading = masked(tagged, {})
    assert finish(tagged, reading, reading.text, ()).text.split() == tagged.text.split()


def test_no_span_is_in_a_contracted_word():
    tagged = plain.scan(Tagged("I <3 this"))
    assert (
        finish(tagged, masked(tagged, {}), "C'est cela", [((0, 1), (0, 1))]).text == "C'est <3 cela"
    )


@pytest.mark.parametrize("written", ["\\'", "''"])
def test_apostrophes_of_the_translation_are_written_as_those_of_the_text(written):
    text = f"It isn{written}t <b>the user{written}s</b> {{0}}."
    tagged = plain.scan(Tagged(text))
    words = {number: "Tom" for number, code in enumerate(tagged.codes) if code.equiv == "{0}"}
    reading = masked(tagged, words)
    assert reading.text == "It isn't the user's Tom."
    assert finish(tagged, reading, "Ce n'est pas l'ami d'Tom.", ()).text.count(written) == 3
    assert finish(tagged, reading, reading.text, ()).tagged.write() == text


@pytest.mark.parametrize(
    "row",
    [
        "See ⟦https://example.org/x⟧.",
        "(⟦www.example.org⟧)",
        "mail ⟦me@example.org⟧, please",
        "thanks ⟦@ada⟧!",
        "fine ⟦😀👍🏽⟧ day",
        "paper ⟦A4⟧, ⟦COVID-19⟧ and the 21st",
        "open ⟦report_v2.pdf⟧ on ⟦example.org⟧.",
        "he cried ⟦aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa⟧!",
        "I am here.where are you",
        "nothing here",
        "⟦3 < 4⟧ and a.b",
        "10 ⟦km²⟧ of ⟦CO₂⟧, ⟦2¼⟧ cups and ⟦x₁⟧",
        "the house⟦¹⟧ is old",
        "⟦SW1A 1AA⟧ (⟦1:1⟧), ⟦10.1000/xyz-1⟧; ⟦2.0.0-rc.1⟧!",
        "⟦00:1A:2B⟧ at ⟦10:30⟧, ⟦100m⟧ or ⟦3.5µg⟧",
        "a 20-year-old, mid-1990s, 6pm, US$5m, 1.234.567 and 10-20",
        "Louis ⟦XIV⟧, siglo XIX, ⟦Ⅷ⟧, CV and CIVIC",
        "⟦my_name⟧ ⟦=>⟧ ⟦^_^⟧ and a_ ⟦H̷e̵⟧ é",
        "at ⟦48°51′24″N⟧ ⟦2°21′03″E⟧, ⟦5′⟧",
        "⟦java.util.Map⟧ in ⟦com.example.app_x⟧, end.Then",
        "⟦Node.js⟧, ⟦spiegel.de⟧ and ⟦__init__.py⟧",
        "in the ⟦90+3⟧' or 45', ⟦5'10\"⟧ tall: 'rock 'n' roll'",
        "in the ⟦90+3'⟧ or ⟦45'⟧, it's ⟦27\"⟧ wide",
        "⟦fooBar⟧, ⟦f(x²)⟧, student(s), ⟦items[0]⟧ of ⟦C++⟧ in ⟦.profile⟧",
        "if ⟦x != y⟧, ⟦a && b⟧ (⟦p = 0.03⟧): I & you",
        "⟦127.0.0.1 - -⟧ and ⟦⌘+C⟧ - so⟦....⟧",
        "⟦drwxr-xr-x⟧ and ⟦-rw-r--r--⟧ of an x-ray",
        "⟦4500 003c  b1e6 ac10⟧, ⟦de ad 00 ff⟧",
        "git is old; run ⟦docker compose up -d⟧ and ⟦sudo apt-get install nginx⟧.",
        "⟦$99,00|$4.99⟧ at ⟦48.8584,2.2945⟧ for $1,299.00, a 35-mm-Film, ⟦A1GP⟧-Team",
    ],
)
def test_do_not_translate_spans_are_found(row):
    assert marked(unmarked(row), kept_spans(unmarked(row))) == row


EXACT = (
    "A4|7x|10s|3h|45min|5x9|12V|3.5kg|120 km/h|5 "
    "°C|(15)|[7]|[a][b]|2.4.1|2024-05-17|7:45|3/4|AX-200/B|H2O|x²|±|→|€|10€|C++"
    "|GB29 NWBK 6016 1331|+49 (30) 123-4567|+33 1 42 68 53 00|SN 1987A|x != "
    "y|report.pdf|a_b|camelCase|😀|1,250|§5|#1|~3|20°N"
)
WORDS = "old house and two small dogs see one garden by night".split()


@given(parts.map("".join) | st.text(max_size=60) | st.text("aA1.,:/-+[]()°€x² ", max_size=30))
def test_a_text_has_its_own_tokens(text):
    assert lost_tokens(text, text) is None and not lost_numbers(text, text)


@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
    st.sampled_from(EXACT.split("|")),
    st.integers(0, 6),
)
def test_what_is_lost_or_doubled_is_named(words, token, place):
    text = " ".join([*words[:place], token, *words[place:]])
    rest = [word[::-1] for word in words]
    assert lost_tokens(text, " ".join([token, *rest])) is None
    for times in (0, 2):
        lost = lost_tokens(text, " ".join([*rest, *[token] * times]))
        assert lost is not None
        named = "".join([text[match.start : match.end] for match in lost])
        assert set(token.replace(" ", "")) <= set(named), (token, named)
        assert not any(word in named for word in words if len(word) > 3)


@pytest.mark.parametrize("mark", ["[15]", "[a][b]", "(15)", "/15", ",[15]", "¹"])
def test_a_word_with_the_mark_of_a_note_is_translated(mark):
    text = f"the children{mark} left"
    assert lost_tokens(text, f"die Kinder{mark} gingen") is None
    [lost] = lost_tokens(text, "die Kinder gingen")
    assert text[lost.start : lost.end] == mark.lstrip(",") and lost.role == "point"


@pytest.mark.parametrize(
    ("text", "target", "lost"),
    [
        ("We walk 3h a day.", "Wir gehen 3 Stunden am Tag.", False),
        ("We walk 3h a day.", "Wir gehen 3. Tag.", True),
        ("It is 10s long.", "Es ist 10 Sekunden lang.", False),
        ("It is 10s long.", "Es ist 10 lang.", True),
        ("In the 80s he was in his 20s.", "In den 80er Jahren war er in seinen 20ern.", False),
        ("It is 5x faster.", "Es 5 mal schneller.", False),
        ("It costs 5kg.", "Es kostet 5 cm.", True),
        ("It needs 45 kWh.", "Es braucht 45 kWhn.", True),
        ("It weighs 1,250 kg.", "Il pèse 1 250 kg.", False),
        ("It begins at 7:45.", "Es beginnt um 7.45 Uhr.", False),
        ("Il part à 9h.", "It leaves at 9.", False),
        ("© 2024 Example", "° 2024 Example", True),
        ("§ 5 of the act", "£5 des Gesetzes", True),
        ("20 £ or 25 €", "20 £ oder 25 €", False),
        ("at most ≤ 5", "höchstens \ufffd\ufffd5", True),
        ("CO₂ is a gas", "CO2 ist ein Gas", True),
        ("CO₂ is a gas", "CO₂ ist ein Gas", False),
        ("3½ cups", "31⁄2 Tassen", True),
        ("twenty euros", "20 €", False),
        ("The CVE", "Die }", True),
        ("a {b}", "{b} a", False),
        ("\ufffd", "\ufffd", False),
    ],
)
def test_lost_units_and_signs_are_detected(text, target, lost):
    assert (lost_tokens(text, target) is not None) is lost


@pytest.mark.parametrize(
    ("text", "target", "lost"),
    [
        ("The house has 120 rooms.", "Das Haus hat 12 Zimmer.", True),
        ("Python 3.10 runs.", "Python 3.1 läuft.", True),
        ("The code is AB12C.", "Der Code ist AB12.", True),
        ("The scale is 1:10 here.", "Der Maßstab ist hier 1 : 10.", True),
        ("Louis XIV was a king.", "Ludwig XVI war ein König.", True),
        ("Chapter Ⅷ is short.", "Kapitel VIII ist kurz.", True),
        ("It was on the 21st, in the 1990s.", "Es war am 21., in den 1990ern.", False),
        ("It is of the 18th century.", "Il est du XXe siècle.", True),
        ("The music of the 1980s is old.", "Die Musik der 1890er ist alt.", True),
        ("The music of the 1980s is old.", "La música de los años 80 es vieja.", False),
        ("It is of the 18th century.", "Il est du XVIIIe siècle.", False),
        ("The 35th house is red.", "Das Haus ist rot.", True),
        ("The 35th house is red.", "La 35.ª casa es roja.", False),
        ("Das 35. Haus ist rot.", "Le 35e bâtiment est rouge.", False),
        ("La 35ème maison est rouge.", "The house is red.", True),
        ("The 10th house and the 21st are red.", "La décima casa y la 21ª son rojas.", False),
        ("Louis XIV died in 1715.", "Ludwig starb 1715.", True),
        ("Es del siglo XVIII.", "It is of the 10th century.", True),
        ("Es del siglo XVIII.", "It is of the 18th century.", False),
        ("Luis XIV reinó setenta años.", "Louis XIV reigned 70 years.", False),
        ("World War II ended in 1945.", "Der Zweite Weltkrieg endete 1945.", False),
        ("It costs 1,234.50 euros and 3 cents.", "Es kostet 1.234,50 Euro und drei Cent.", False),
        ("A 20-year-old came at 6pm.", "Ein 20-Jähriger kam um 6.", False),
    ],
)
def test_lost_numbers_and_codes_are_detected(text, target, lost):
    assert lost_numbers(text, target) is lost


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        (
            "They won 4–2 with fooBar.",
            "Sie gewannen 4-2 mit FooBar.",
            "Sie gewannen 4–2 mit fooBar.",
        ),
        ("It is €1,999.99.", "Es ist €1.999,99.", None),
        ("250 ml of $99,00|$4.99", "250 Ml von $99.00|$4,99", "250 ml von $99,00|$4.99"),
        ("𝓗𝓮𝓵𝓵𝓸 is written by hand.", "𝓗𝓮𝓵𝓵𝓸 wird von Hand geschrieben.", None),
        ("It costs $1,299.00 or 1.5 kWh.", "Es kostet $1.299,00 oder 1,5 kWh.", None),
    ],
)
def test_codes_and_versions_are_spelled_as_in_the_source(text, target, expected):
    assert respelled(text, target) == (expected or target)


def test_acronyms_are_words_in_capitals():
    assert [(span.start, span.end) for span in words("A CVE of the EU4 is Xy", capitals=True)] == [
        (2, 5),
        (13, 16),
    ]


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("HELLO WORLD", "", True), ("THE USA!", "", True), ("NASA", "", False), ("A B C D", "abcd", False),
        ("Hello WORLD", "hello", False), ("12 34", "", False), ("CANCEL", "cancel", True), ("CANCEL!", "cancel", True),
        ("(MUSIC)", "music", True), ("CANCEL", "", False), ("NATO", "nato NATO", False), ("WHO", "who", False),
        ("Cancel", "cancel", False),
    ],
)  # fmt: skip
def test_phrases_in_capitals_are_recognized(text, pieces, expected):
    assert is_all_caps(text, Mock(is_piece=pieces.split().__contains__)) is expected


@pytest.mark.parametrize("sentence", ["Look at {} now.", "{} is it", "is it {}", "a {} b {} c"])
@pytest.mark.parametrize("kept", KEPT)
def test_every_translation_contains_the_span(client, sentence, kept):
    text = sentence.format(kept, kept)
    answer = client.post("/translate", json={"q": text, "source": "en", "target": "de"}).json()
    assert answer["translatedText"].count(kept) == text.count(kept)
    assert sorted(answer["translatedText"]) == sorted(text)


def test_capitals_are_translated_in_sentence_case_and_written_in_capitals(client, engine):
    asked = {
        "q": "WHERE IS IT? https://example.org/Path",
        "source": "en",
        "target": "de",
        "details": True,
    }
    answer = client.post("/translate", json=asked).json()
    assert (
        "TI SI EREHW" in answer["translatedText"]
        and "https://example.org/Path" in answer["translatedText"]
    )
    [[first, *_]] = answer["details"]["sentences"]
    assert first["source"].startswith("WHERE")


def test_attention_shows_the_text_that_the_model_read(client):
    asked = {"q": "Look 😀 here https://example.org now", "source": "en", "target": "de"}
    id = client.post("/translate", json=asked).json()["id"]
    found = client.get("/attention", params={"id": id}).json()
    assert (
        found["source"]["text"] == "Look 😀 here now" or found["source"]["text"] == "Look here now"
    )
    assert len(found["cross"][0][0][0]) == len(found["source"]["pieces"])


def test_each_sentence_with_markup_is_aligned_once(client, engine):
    texts = [f"one <b>two</b> three {'x' * i} <i>four</i> five" for i in range(40)]
    answer = client.post(
        "/translate", json={"q": texts, "source": "en", "target": "de", "format": "html"}
    )
    assert answer.status_code == 200 and len(engine.attended) == 40


OTHERWISE = """
It opens at 11:00. | Es öffnet um 11 Uhr. | Es öffnet um 12 Uhr.
It starts at 2:30 pm. | Es beginnt um 14.30 Uhr. | Es beginnt um 15.30 Uhr.
It closes at 19:00. | Cierra a las 7 de la tarde. | Cierra a las 8 de la tarde.
Il part à 9 h 05. | It leaves at 9:05 a.m. | It leaves at 9:50 a.m.
It cost $2.3 billion in 2008. | Costó 2300 millones en 2008. | Costó 230 millones en 2008.
It has 54 million users. | Es hat 54 Millionen Nutzer. | Es hat 54 54 Millionen Nutzer.
Il y a 12 000 places. | There are 12 thousand seats. | There are 13 thousand seats.
500,000 finds | 500 mil hallazgos | 510 mil hallazgos
Les films des années 60 | films of the 1960s | films of the 1970s
In den 1830ern | In the 1830s | In the 1840s
It is 5 km away. | Es ist 5 Kilometer entfernt. | Es ist 5 cm entfernt.
1600 km2 of ice | 1600 km² Eis | 1700 km² Eis
east of 35°W | al este de 35° O | al este de 36° O
Sie gewannen 7:2. | They won 7–2. | They won 7–3.
"""
"""A text, a translation with its numbers, and one with another number."""


@pytest.mark.parametrize("row", OTHERWISE.strip().split("\n"))
def test_digits_may_be_written_otherwise(row):
    source, same, other = row.split(" | ")
    assert not lost_numbers(source, same) and lost_numbers(source, other)
    assert not lost_numbers(same, source)


@pytest.mark.parametrize("token", ["C++", "a_b", "x^2", "F#"])
def test_a_sign_that_is_lost_is_masked_with_its_token(token):
    text = f"{token} and more"
    assert [
        text[each.start : each.end] for each in lost_tokens(text, f"{token} + _ # ^ und mehr") or ()
    ] == [token]
