"""Number words: their values in four languages, and whether a translation has them."""

from __future__ import annotations

import pytest

from server.text.exact_tokens import lost_numbers
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
    {"en": "He is twenty-one.", "de": "Er ist einundzwanzig.", "fr": "Il a vingt et un ans.", "es": "Tiene veintiún años."},
    {"en": "eighty-one", "de": "einundachtzig", "fr": "quatre-vingt-un", "es": "ochenta y uno"},
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
    ("Ich habe einundzwanzig Bücher.", "I have twenty books.", "de-en", True), ("one is ill", "er ist krank", "en-de", False),
    ("vingt et un ans", "twenty years", "fr-en", True), ("treinta y un libros", "thirty and a books", "es-en", True),
    ("veinte de una serie", "twenty of a series", "es-en", False), ("one hundred", "hundert", "en-de", False),
    ("The two of us", "Nous deux", "en-fr", False), ("die beiden Häuser", "the houses", "de-en", False),
    ("half past seven", "halb acht", "en-de", False), ("at three in the afternoon", "um 15 Uhr", "en-de", False),
    ("the nineteenth century", "le XIXe siècle", "en-fr", False), ("cinq pour cent", "five percent", "fr-en", False),
    ("one of the second hand shops", "einer der Läden", "en-de", False), ("un habit neuf", "a new suit", "fr-en", False),
    ("two, three or four", "zwei, drei oder vier", "en-de", False), ("two or three", "zwei oder vier", "en-de", True),
    ("Once personas", "Eleven people", "es-en", False), ("three cats", "kolme kissaa", "en-fi", False),
    ("① 10² of three", "① 10² von drei", "en-de", False), ("² three", "²", "en-de", True),
    ("Six Hills is open.", "Six Hills ist offen.", "en-de", False), ("Six hills", "Die Hügel", "en-de", True),
    ("dozens of boats", "des dizaines de bateaux", "en-fr", False), ("thirty minutes", "media hora", "en-es", False),
    ("Ayuda a la tercera edad.", "It helps the elderly.", "es-en", False),
    ("sixty " * 500, "sechzig " * 500, "en-de", False), ("million " * 500, "x", "en-fr", True),
])  # fmt: skip
def test_a_lost_number(source, target, pair, lost):
    assert lost_number_words(source, target, *pair.split("-")) is lost


@pytest.mark.parametrize(("source", "same", "other", "pair"), [
    ("It opens at 11:00.", "Es öffnet um 11 Uhr.", "Es öffnet um 12 Uhr.", "en-de"),
    ("It starts at 2:30 pm.", "Es beginnt um 14.30 Uhr.", "Es beginnt um 15.30 Uhr.", "en-de"),
    ("It closes at 19:00.", "Cierra a las 7 de la tarde.", "Cierra a las 8 de la tarde.", "en-es"),
    ("We meet at 10:30.", "Wir treffen uns um halb elf.", "Wir treffen uns um 11:45 Uhr.", "en-de"),
    ("Il part à 9 h 05.", "It leaves at 9:05 a.m.", "It leaves at 9:50 a.m.", "fr-en"),
    ("It is 1.5 hours away.", "Está a una hora y media.", "Está a dos horas.", "en-es"),
    ("2012 gab es 14 Läden.", "In 2012 there were fourteen shops.", "In 2012 there were forty shops.", "de-en"),
    ("It cost $2.3 billion in 2008.", "Costó 2300 millones en 2008.", "Costó 230 millones en 2008.", "en-es"),
    ("It has 54 million users.", "Es hat 54 Millionen Nutzer.", "Es hat 54 54 Millionen Nutzer.", "en-de"),
    ("Il y a 12 000 places.", "There are 12 thousand seats.", "There are 13 thousand seats.", "fr-en"),
    ("World War II ended.", "Der Zweite Weltkrieg endete.", "Der Dritte Weltkrieg endete.", "en-de"),
    ("Les films des années 60", "films of the 1960s", "films of the 1970s", "fr-en"),
    ("In den 1830ern", "In the 1830s", "In the 1840s", "de-en"),
    ("It is 5 km away.", "Es ist 5 Kilometer entfernt.", "Es ist 5 cm entfernt.", "en-de"),
    ("1600 km2 of ice", "1600 km² Eis", "1700 km² Eis", "en-de"),
    ("east of 35°W", "al este de 35° O", "al este de 36° O", "en-es"),
    ("Sie gewannen 7:2.", "They won 7–2.", "They won 7–3.", "de-en"),
    ("los pisos 1.er y undécimo de 20", "the 1st and the 11th floor of 20", "the 1st and the 12th floor of 20", "es-en"),
])  # fmt: skip
def test_digits_that_are_written_otherwise(source, same, other, pair):
    languages = pair.split("-")
    assert not lost_numbers(source, same, *languages) and lost_numbers(source, other, *languages)
    assert not lost_numbers(same, source, *reversed(languages))
