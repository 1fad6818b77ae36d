"""Language detection: short texts with what the request says about them, unsure texts, languages
that are not served."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from server.api.dependencies import accepted_languages
from server.text import language_id
from server.text.language_id import LanguageDetector
from server.text.languages import script_of, scripts_of

# Short texts by language, divided by "|".
UNSERVED = """
hu: Jó reggelt|Nem értem|Hol van a pályaudvar?|Mennyibe kerül?|Hol van a bank?
tr: teşekkür ederim|Nasılsın?|Ne kadar?|Seni seviyorum|Banka nerede?
vi: Xin chào|Tôi không hiểu|Bao nhiêu tiền?|Ngân hàng ở đâu?
pl: Dzień dobry|Nie rozumiem|Gdzie jest dworzec?|Ile to kosztuje?
cs: Děkuji|Nerozumím|Kde je nádraží?|Kolik to stojí?
sk: Ďakujem|Kde je stanica?|Koľko to stojí?
it: Buongiorno|Dove si trova la stazione?|Quanto costa?|Dov'è la banca?|Non capisco
it: Vorrei un caffè
pt: Muito obrigado|Não entendo|Onde fica a estação?|Quanto custa isto?
nl: Goedemorgen|Waar is het station?|Ik begrijp het niet|Hoeveel kost dit?
sv: Tack så mycket|Jag förstår inte|God natt|Var ligger banken?
da: Mange tak|Jeg forstår ikke|Godmorgen|Hvor er banken?
fi: Kiitos paljon|Missä on asema?|En ymmärrä|Paljonko tämä maksaa?
et: Aitäh|Kus on jaam?|Ma ei saa aru|Kus on pank?
lv: Paldies|Kur ir stacija?|Cik tas maksā?
lt: Ačiū|Kur yra stotis?|Nesuprantu|Kiek tai kainuoja?
ro: Mulțumesc frumos|Nu înțeleg|Unde este gara?|Cât costă biletul?
hr: Hvala lijepa|Ne razumijem|Gdje je kolodvor?|Koliko košta karta?
sl: Lahko noč|Kje je postaja?|Koliko stane vstopnica?
id: Terima kasih|Saya tidak mengerti|Di mana stasiun?|Berapa harganya?
sq: Faleminderit|Nuk kuptoj|Ku është banka?
is: Takk fyrir|Hvar er stöðin?|Hvað kostar þetta?
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
sw: Asante sana|Benki iko wapi?
eu: Eskerrik asko|Non dago bankua?
cy: Bore da|Ble mae'r banc?
tl: Maraming salamat|Nasaan ang bangko?
nb: Jeg forstår ikke dette|Hvor mye koster billetten?
ca: On és la platja?|Bona nit a tothom
gl: Onde está a estación?
ga: Cá bhfuil an banc?
ms: Berapakah harga tiket ini?
so: Bangigu waa xaggee?
zu: Liphi ibhange?|Angiqondi lutho
xh: Iphi ibhanki?
af: Waar is die bank asseblief?
eo: Kie estas la banko?
az: Bank haradadır?
uz: Bank qayerda joylashgan?
mt: Fejn hu l-bank?
yo: Nibo ni ile ifowopamọ wa?
fa: بانک کجاست؟
ka: სად არის ბანკი?
hy: Որտե՞ղ է բանկը
bn: ব্যাংক কোথায়?
ta: வங்கி எங்கே?
te: బ్యాంకు ఎక్కడ ఉంది?
mr: बँक कुठे आहे?
km: ធនាគារនៅឯណា?
my: ဘဏ်ဘယ်မှာလဲ
lo: ທະນາຄານຢູ່ໃສ
am: ባንኩ የት ነው?
mn: Банк хаана байна вэ?
kk: Банк қайда орналасқан?
sr: Где је банка?
mk: Каде е банката?
be: Дзе знаходзіцца банк?
ur: بینک کہاں ہے؟
gu: બેંક ક્યાં છે?
pa: ਬੈਂਕ ਕਿੱਥੇ ਹੈ?
kn: ಬ್ಯಾಂಕ್ ಎಲ್ಲಿದೆ?
ml: ബാങ്ക് എവിടെയാണ്?
"""
SERVED = """
en: Thank you|Where is the station?|I don't understand|Save changes|Forgot password?
en: Terms of use|Next|Łódź is nice|Visit Łódź and Kraków today|Cancel|Hello|Menu|Help|Settings|Good morning.
de: Vielen Dank|Wo ist der Bahnhof?|Ich verstehe nicht|Änderungen speichern|Passwort vergessen?
de: Schriftgröße|Es regnet.|Abbrechen|Datei|Guten Morgen.|Danke.
fr: Merci beaucoup|Je ne comprends pas|Mot de passe oublié ?|Paramètres|Livraison gratuite
fr: À demain|Enregistrer les modifications|Annuler|Fichier|Au revoir|Bonsoir.
es: Muchas gracias|¿Dónde está la estación?|No entiendo|Guardar cambios|Tamaño de letra
es: ¿Qué hora es?|Feliz cumpleaños|Cancelar|Archivo|¿Dónde está el banco?|¿Cuánto cuesta?
"""
LONG = """
en: The committee will publish the results of the inquiry before the end of the month.
de: Der Ausschuss wird die Ergebnisse der Untersuchung noch vor Ende des Monats veröffentlichen.
fr: La commission publiera les résultats de l'enquête avant la fin du mois, à Szczecin et à Łódź.
es: La comisión publicará los resultados de la investigación antes del fin de mes.
"""
LABELS = """
en: Cancel|Settings|Save file|Log in|Sign up|Undo|Print preview|Cart|Checkout|Forgot password
en: Terms of use
de: Abbrechen|Einstellungen|Datei speichern|Anmelden|Hilfe|Bearbeiten|Warenkorb|Bahnhof|Konto
de: Über uns
fr: Annuler|Paramètres|Enregistrer le fichier|Connexion|Gare|Aide|Panier|Mot de passe|Plein écran
fr: Accueil
es: Cancelar|Ajustes|Guardar archivo|Iniciar sesión|Ayuda|Carrito|Contraseña|Agotado|Ver
es: Pantalla completa
"""
CONFUSED = [
    frozenset(group.split()) for group in ("da nb nn sv", "bs hr sr", "id ms", "cs sk", "zh ja")
]
"""Languages that short texts do not tell apart."""


def listed(table: str) -> list[tuple[str, str]]:
    rows = [row.partition(": ") for row in table.strip().splitlines()]
    return [(text, language) for language, _, texts in rows for text in texts.split("|")]


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
        assert {guesses[0].language for guesses in detector.detect_all(greetings, target)} == {
            language
        }


@pytest.mark.parametrize("text", ["Hello.", "Cancel", "1234", "Wo ist der Hund?"])
@pytest.mark.parametrize("target", ["", "de"])
def test_a_repeated_text_is_detected_as_once(detector, text, target):
    assert detector.detect_all([text] * 3, target) == [detector.detect(text, target)] * 3
    with_other = detector.detect_all([text, "No", "Save"], target)
    repeated = detector.detect_all([text, "No", text, "Save", text], target)
    assert repeated == [with_other[i] for i in (0, 1, 0, 2, 0)]


def test_the_other_texts_decide_for_every_language(detector):
    spanish = ["No", "Guardar cambios", "Eliminar archivo", "No se pudo abrir el archivo."]
    assert [guesses[0].language for guesses in detector.detect_all(spanish)] == ["es"] * 4
    german = ["Start", "Abbrechen", "Datei speichern", "Die Datei fehlt."]
    assert [guesses[0].language for guesses in detector.detect_all(german, "en")] == ["de"] * 4
    last = "Non è stato possibile aprire il file."
    italian = ["Modifica", "Salva le modifiche", "Elimina il file", last]
    assert [guesses[0].language for guesses in detector.detect_all(italian)] == ["it"] * 4


@pytest.mark.parametrize("other", ["", "42", "!"])
def test_a_text_without_letters_says_nothing_about_the_others(detector, other):
    assert detector.detect_all([other, "Hello."], "de")[1] == detector.detect("Hello.", "de")


def test_a_clear_text_overrides_what_the_request_says(detector):
    found = detector.detect_all(
        [*ENGLISH, "Die Datei konnte nicht geöffnet werden."], "en", ("es",)
    )
    assert [guesses[0].language for guesses in found] == ["en", "en", "en", "de"]
    found = detector.detect_all(["Where is the dog?", "Wo ist der Hund?"], "fr")
    assert [guesses[0].language for guesses in found] == ["en", "de"]


def test_an_unsure_language_has_a_low_confidence_and_alternatives():
    best = LanguageDetector(("de", "en", "nl")).detect("Hotel")[0]
    languages = {best.language, *[guess.language for guess in best.alternatives]}
    assert best.confidence < 60 and languages >= {"de", "en"}
    [sure, *_] = LanguageDetector(("de", "en")).detect("The station is behind the old church.")
    assert not sure.alternatives


@pytest.mark.parametrize(("text", "language"), listed(SERVED))
def test_a_short_text_of_a_served_language_stays_detected(detector, text, language):
    assert detector.detect(text)[0].language == language


@pytest.mark.parametrize(("text", "language"), listed(LONG))
def test_a_long_text_is_not_doubted(detector, text, language):
    best = detector.detect(text)[0]
    assert best.language == language and best.confidence >= 98 and not best.alternatives


@pytest.mark.parametrize(
    "text",
    ["Hotel", "Menu", "Taxi", "Restaurant", "OK", "Bus", "Radio", "Film", "Internet", "Video"],
)
def test_a_word_of_many_languages_is_translated(detector, text):
    for target in ("", "de", "en", "es", "fr"):
        assert detector.detect(text, target)[0].language in detector.languages


def test_two_words_of_many_languages_are_translated(detector):
    words = (
        "Hotel Restaurant Taxi Bar Radio Film Video Internet Bus Park Museum Menu Photo Format "
        "Profil Plan Text"
    ).split()
    pairs = [f"{first} {second}" for first in words for second in words if first != second]
    copied = [
        (pair, target)
        for pair in pairs
        for target in ("", "en", "fr")
        if detector.detect(pair, target)[0].language not in detector.languages
    ]
    assert not copied


@pytest.mark.parametrize(("label", "language"), listed(LABELS))
def test_labels_of_user_interfaces_are_translated(detector, label, language):
    for target in {"en", "de", "fr", "es"} - {language}:
        assert detector.detect(label, target)[0].language in detector.languages, target


def test_few_short_texts_of_no_served_language_are_claimed_for_a_served_one(detector):
    texts = [(text, language) for text, language in listed(UNSERVED) if " " in text]
    found = [detector.detect(text)[0].language for text, _ in texts]
    claimed = [
        text for (text, _), best in zip(texts, found, strict=True) if best in detector.languages
    ]
    assert len(texts) > 100 and len(claimed) <= 0.06 * len(texts), claimed
    wrong = [
        (text, best)
        for (text, language), best in zip(texts, found, strict=True)
        if best != language and not any({best, language} <= group for group in CONFUSED)
    ]
    assert len(wrong) <= 0.15 * len(texts), wrong


def test_a_text_in_a_script_of_no_served_language_is_never_in_a_served_one(detector):
    for text in ("Да", "ок", "Ж", "Привет, мир", "日本", "ข", "Ω", "ㄅㄆ", "ᏣᎳᎩ"):
        best = detector.detect(text)[0]
        assert best.language not in detector.languages or not best.confidence, text


@pytest.mark.parametrize("text", ["1234 !?", "", " \n", "🎉🎉", "¿? ¡!", "'’"])
def test_a_text_without_letters_has_no_language(detector, text):
    guesses = detector.detect(text)
    assert guesses[0].language == "en" and {guess.confidence for guess in guesses} == {0}
    assert detector.other_language(text, "de") is None


@pytest.mark.parametrize("text", [text for text, _ in listed(UNSERVED) + listed(SERVED)])
def test_the_languages_of_an_answer_are_sorted_and_complete(detector, text):
    for target in ("", "en"):
        best, *others = detector.detect(text, target, ("fr",))
        confidences = [guess.confidence for guess in (best, *others)]
        assert confidences == sorted(confidences, reverse=True) and 1 <= sum(confidences) <= 103
        assert set(detector.languages) <= {guess.language for guess in (best, *others)}
        assert best.alternatives == tuple(
            [guess for guess in others if guess.confidence >= 10 and best.confidence < 60]
        )


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("no", "Jeg forstår ikke dette, men jeg skal prøve igjen i morgen."),
        ("zh-Hant", "請問車站在哪裡？"),
        ("cmn", "请问车站在哪里？"),
        ("pt-BR", "Onde fica a estação de trem mais próxima?"),
        ("iw", "איפה תחנת הרכבת?"),
        ("fil", "Nasaan po ang istasyon ng tren dito?"),
    ],
)
def test_a_served_code_with_an_alias_or_a_region_is_detected(code, text):
    assert LanguageDetector(("en", code)).detect(text)[0].language == code


def test_languages_that_the_classifier_does_not_know_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    detector = LanguageDetector(["en", "ace-Arab", "nus"])
    with caplog.at_level(logging.WARNING):
        detector.load()
    assert [record.getMessage() for record in caplog.records] == [
        "languages that source=auto cannot detect: ace-Arab, nus"
    ]
    assert {guess.language for guess in detector.detect("The house is small.")} == {
        "en",
        "ace-Arab",
        "nus",
    }


def test_every_language_of_the_classifier_can_be_served():
    labels = list(language_id.known_languages())
    detector = LanguageDetector(labels)
    assert len(labels) > 100 and set(detector.codes) == set(labels)
    for text, language in listed(LONG):
        assert detector.detect(text)[0].language == language
    for text, language in listed(UNSERVED):
        assert language in labels
        scripts = {script_of(character) for character in text} - {None}
        assert scripts & scripts_of(language), (language, scripts)


@pytest.mark.parametrize(
    "text", ["\x00\x01", "a" * 100_000, "__label__de the house", "\ud800", "é" * 9, "e\u0301" * 9]
)
def test_hostile_texts_are_answered(detector, text):
    assert detector.detect(text)[0].language
    assert detector.other_language(text, "en") != "en"


def test_threads_get_the_same_answers(detector):
    texts = [text for text, _ in listed(UNSERVED) + listed(SERVED)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(detector.detect, texts)) == list(map(detector.detect, texts))


def test_the_header_accept_language():
    assert accepted_languages("de-AT, de;q=0.9, en;q=0.5, *;q=0.1") == ("de-AT", "de", "en")
    assert accepted_languages(None) == accepted_languages("") == ()
    assert len(accepted_languages(",".join(["en"] * 100))) == 5


@pytest.mark.parametrize(("text", "expected", "found"), [
    ("the committee decided yesterday that these rules apply from next year", "de", "en"),
    ("das Komitee hat gestern entschieden, dass diese Regeln gelten", "fr", "de"),
    ("le comité a décidé hier que ces règles seront appliquées", "es", "fr"),
    ("комитет вчера решил, что эти правила вступят в силу со следующего года в каждой из наших "
     "стран, без "
     "исключений и без дальнейших условий", "de", "ru"),
    ("das Komitee hat gestern entschieden, dass diese Regeln gelten", "de", None),
    ("hotel restaurant taxi", "de", None),
    ("el comité decidió ayer que estas reglas se aplicarán", "es", None),
    ("o comité decidiu ontem que estas regras serão aplicadas a partir do próximo ano em todos os "
     "países da união", "es", "pt"),
    ("entre todo ser que", "es", None), ("la riunione di domani è stata spostata al pomeriggio", "en", "it"),
    ("de vergadering van morgen is naar de middag verplaatst", "de", "nl"),
    ("o relatório não está pronto e a reunião foi adiada", "es", "pt"), ("möte med det", "de", None),
    ("whatever text is written here in English words", "xx", None),
    ("", "de", None),
])  # fmt: skip
def test_other_language(detector, text, expected, found):
    assert detector.other_language(text, expected) == found


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("af", "het huis is klein en de tuin is groot, maar de buren zijn aardig"),
        ("de", "das Komitee hat gestern entschieden, dass diese Regeln gelten"),
    ],
)
def test_a_target_that_is_no_source_is_not_confused_with_a_similar_language(language, text):
    assert LanguageDetector(["en"]).other_language(text, language) is None
