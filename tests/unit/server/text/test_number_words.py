"""Number words: their values in four languages, and whether a translation has them."""

from __future__ import annotations

import pytest

from server.text.number_words import lost_number_words

SAME = [
    {"en": "We sold seventeen of them.", "de": "Wir haben siebzehn davon verkauft.",
     "fr": "Nous en avons vendu dix-sept.", "es": "Vendimos diecisiete."},
    {"en": "It costs two hundred and fifty.", "de": "Es kostet zweihundertfünfzig.",
     "fr": "Cela coûte deux cent cinquante.", "es": "Cuesta doscientos cincuenta."},
    {"en": "Ninety-seven guests came.", "de": "Siebenundneunzig Gäste kamen.",
     "fr": "Quatre-vingt-dix-sept invités sont venus.", "es": "Vinieron noventa y siete invitados."},
    {"en": "three thousand four hundred and twenty", "de": "dreitausendvierhundertzwanzig",
     "fr": "trois mille quatre cent vingt", "es": "tres mil cuatrocientos veinte"},
    {"en": "They lost 6 billion.", "de": "Sie verloren sechs Milliarden.",
     "fr": "Ils ont perdu six milliards.", "es": "Perdieron seis mil millones."},
    {"en": "A dozen eggs", "de": "Zwölf Eier", "fr": "Une douzaine d'œufs", "es": "Una docena de huevos"},
    {"en": "On the third floor", "de": "Im dritten Stock", "fr": "Au troisième étage", "es": "En el tercer piso"},
    {"en": "Hundreds of thousands left.", "de": "Hunderttausende gingen.",
     "fr": "Des centaines de milliers sont partis.", "es": "Se fueron cientos de miles."},
]  # fmt: skip


@pytest.mark.parametrize("texts", SAME, ids=lambda texts: texts["en"])
def test_the_same_number_in_two_languages(texts):
    pairs = [(a, b) for a in texts for b in texts]
    assert [pair for pair in pairs if lost_number_words(texts[pair[0]], texts[pair[1]], *pair)] == []
    other = {"en": "It is forty-four.", "de": "Es sind vierundvierzig.", "fr": "quarante-quatre", "es": "44"}
    assert [pair for pair in pairs if not lost_number_words(texts[pair[0]], other[pair[1]], *pair)] == []


@pytest.mark.parametrize(("source", "target", "pair", "lost"), [
    ("In twelve years", "In 12 Jahren", "en-de", False), ("In twelve years", "In 20 Jahren", "en-de", True),
    ("She is twenty-five.", "Sie ist 25 Jahre alt.", "en-de", False), ("dreißig Euro", "three euros", "de-en", True),
    ("five billion people", "fünf Billionen Menschen", "en-de", True), ("both of them", "beide", "en-de", False),
    ("The two of us", "Nous deux", "en-fr", False), ("die beiden Häuser", "the houses", "de-en", False),
    ("half past seven", "halb acht", "en-de", False), ("at three in the afternoon", "um 15 Uhr", "en-de", False),
    ("the nineteenth century", "le XIXe siècle", "en-fr", False), ("cinq pour cent", "five percent", "fr-en", False),
    ("one of the second hand shops", "einer der Läden", "en-de", False), ("un habit neuf", "a new suit", "fr-en", False),
    ("two, three or four", "zwei, drei oder vier", "en-de", False), ("two or three", "zwei oder vier", "en-de", True),
    ("Once personas", "Eleven people", "es-en", False), ("three cats", "kolme kissaa", "en-fi", False),
    ("① 10² of three", "① 10² von drei", "en-de", False), ("² three", "²", "en-de", True),
    ("sixty " * 500, "sechzig " * 500, "en-de", False), ("million " * 500, "x", "en-fr", True),
])  # fmt: skip
def test_a_lost_number(source, target, pair, lost):
    assert lost_number_words(source, target, *pair.split("-")) is lost
