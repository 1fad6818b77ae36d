"""Short texts: languages that no model serves are not claimed for a served one, and the served ones stay detected."""

from __future__ import annotations

import pytest

from server.text.language_id import DetectedLanguage, LanguageDetector

pytestmark = pytest.mark.slow  # loads the statistics of 38 languages

UNSERVED = """
hu: Jó reggelt|Nem értem|Hol van a pályaudvar?|Mennyibe kerül?
tr: teşekkür ederim|Nasılsın?|Ne kadar?|Seni seviyorum
vi: Xin chào|Tôi không hiểu|Bao nhiêu tiền?
pl: Dzień dobry|Nie rozumiem|Gdzie jest dworzec?
cs: Děkuji|Nerozumím|Kde je nádraží?
sk: Ďakujem|Kde je stanica?
it: Buongiorno|Dove si trova la stazione?|Quanto costa?
pt: Muito obrigado|Não entendo|Onde fica a estação?
nl: Goedemorgen|Waar is het station?|Ik begrijp het niet
sv: Tack så mycket|Jag förstår inte|God natt
da: Mange tak|Jeg forstår ikke|Godmorgen
fi: Kiitos paljon|Missä on asema?|En ymmärrä
et: Aitäh|Kus on jaam?|Ma ei saa aru
lv: Paldies|Kur ir stacija?
lt: Ačiū|Kur yra stotis?|Nesuprantu
ro: Mulțumesc frumos|Nu înțeleg|Unde este gara?
hr: Hvala lijepa|Ne razumijem|Gdje je kolodvor?
sl: Lahko noč|Kje je postaja?
id: Terima kasih|Saya tidak mengerti|Di mana stasiun?
sq: Faleminderit|Nuk kuptoj
is: Takk fyrir|Hvar er stöðin?
ru: Привет|Где вокзал?|Да
uk: Дякую|Не розумію
bg: Добро утро|Не разбирам
el: Καλημέρα|Πού είναι ο σταθμός;
ja: ありがとう
zh: 谢谢
ko: 감사합니다
ar: شكرا
he: תודה
hi: धन्यवाद
th: ขอบคุณ
sw: Asante sana
eu: Eskerrik asko
cy: Bore da
tl: Maraming salamat
"""
SERVED = """
en: Thank you|Where is the station?|I don't understand|Save changes|Forgot password?|Terms of use|Next|Łódź is nice
de: Vielen Dank|Wo ist der Bahnhof?|Ich verstehe nicht|Änderungen speichern|Passwort vergessen?|Schriftgröße|Es regnet.
fr: Merci beaucoup|Je ne comprends pas|Mot de passe oublié ?|Paramètres|Livraison gratuite|À demain|Enregistrer les modifications
es: Muchas gracias|¿Dónde está la estación?|No entiendo|Guardar cambios|Tamaño de letra|¿Qué hora es?|Feliz cumpleaños
"""
LONG = """
en: The committee will publish the results of the inquiry before the end of the month.
de: Der Ausschuss wird die Ergebnisse der Untersuchung noch vor Ende des Monats veröffentlichen.
fr: La commission publiera les résultats de l'enquête avant la fin du mois, à Szczecin et à Łódź.
es: La comisión publicará los resultados de la investigación antes del fin de mes.
"""


def listed(table: str) -> list[tuple[str, str]]:
    rows = [row.partition(": ") for row in table.strip().splitlines()]
    return [(text, language) for language, _, texts in rows for text in texts.split("|")]


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector(("de", "en", "es", "fr"))


@pytest.mark.parametrize(("text", "language"), listed(UNSERVED))
def test_a_short_text_of_no_served_language_is_undecided_or_named(detector, text, language):
    best, *others = detector.detect(text)
    if best.language in detector.languages:
        assert 0 < best.confidence < 50
        assert best.alternatives and max(one.confidence for one in best.alternatives) < 50
        assert set(best.alternatives) <= set(others)


@pytest.mark.parametrize(("text", "language"), listed(SERVED))
def test_a_short_text_of_a_served_language_stays_detected(detector, text, language):
    best = detector.detect(text)[0]
    assert best.language == language and best.confidence >= 50


@pytest.mark.parametrize(("text", "language"), listed(LONG))
def test_a_long_text_is_not_doubted(detector, text, language):
    assert detector.detect(text)[0] == DetectedLanguage(language, 100)


def test_a_text_in_a_script_of_no_served_language_is_never_in_a_served_one(detector):
    for text in ("Да", "ок", "Ж", "Привет, мир", "日本", "ข", "Ω"):
        assert detector.detect(text)[0].language not in detector.languages, text
