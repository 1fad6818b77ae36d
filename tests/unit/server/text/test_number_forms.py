"""Generated numbers in six directions: a value in the format of either language is the same, and
what is lost, doubled or changed is found; also as a hostile model translates them."""

from __future__ import annotations

import random

import pytest

from server.config import Settings
from server.services import Services
from server.text.exact_tokens import lost_numbers, lost_tokens, respelled
from server.text.numbers import SEPARATORS, numbers, with_formats
from server.translation.types import TranslationRequest
from tests.support.engine.hostile_engine import NAMED, SYMBOLS, HostileEngine
from tests.support.texts.hostile_checks import CATALOGS

PAIRS = [
    (source, target)
    for other in ("de", "fr", "es")
    for source, target in (("en", other), (other, "en"))
]
CONTEXTS = {
    kind: sentences.split("|")
    for kind, sentences in (
        ("euros", "It costs {} euros.|Es kostet {} Euro.|Cela coûte {} euros.|Cuesta {} euros."),
        ("sign", "It costs €{} now.|Es kostet €{} jetzt.|Cela coûte €{} ici.|Cuesta €{} ahora."),
        ("unit", "It weighs {} kg.|Es wiegt {} kg.|Il pèse {} kg.|Pesa {} kg."),
        ("glued", "It is {}km away.|Es ist {}km weit.|C'est à {}km.|Está a {}km."),
        ("percent", "It rose by {}%.|Es stieg um {}%.|Il a monté de {}%.|Subió un {}%."),
        ("million", "It has {} million.|Es hat {} Millionen.|Il a {} millions.|Tiene {} millones."),
        ("plain", "We saw {} birds.|Wir sahen {} Vögel.|On a vu {} oiseaux.|Vimos {} aves."),
    )
}
FIXED = {
    "time": ["14:05", "7:45", "23:59"],
    "version": ["2.4.1", "10.0.12", "1.2.3-rc1"],
    "date": ["2024-05-17", "1999-12-31"],
    "phone": ["+49 30 123456", "555-0123"],
    "address": ["192.168.1.254", "10.0.0.1"],
    "range": ["20-35", "100-250"],
    "code": ["A113", "B-204", "X7Z9"],
    "year": ["1987", "2031"],
}
LANGUAGES = ("en", "de", "fr", "es")
UNITS = {
    "ml": "millilitres Milliliter millilitres mililitros",
    "kg": "kilograms Kilogramm kilogrammes kilogramos",
    "l": "litres Liter litres litros",
    "m": "metres Meter mètres metros",
    "min": "minutes Minuten minutes minutos",
    "GB": "gigabytes Gigabyte gigaoctets gigabytes",
    "ft": "feet Fuß pieds pies",
    "ha": "hectares Hektar hectares hectáreas",
    "V": "volts Volt volts voltios",
    "oz": "ounces Unzen onces onzas",
    **dict.fromkeys("km/h kWh Ah Hz °C mm W".split(), ""),
}
"""Signs of units that all languages have, and their words in these."""
BESIDE = (("Add {} milk.", "Get {}."), ("{} Milch dazugeben.", "Nimm {}."), ("Ajoutez {} lait.", "Prends {}."),
          ("Añada {} leche.", "Toma {}."))  # fmt: skip


def written(value: float, decimals: int, language: str) -> str:
    """Returns a number in the format of a language."""
    point, group = SEPARATORS[language]
    return f"{value:,.{decimals}f}".replace(",", "\0").replace(".", point).replace("\0", group)


def generated(
    chance: random.Random, context: str, source: str, target: str
) -> tuple[str, str, str, str]:
    """Returns a sentence, its translation, and the number as it is written in both."""
    decimals = chance.choice((0, 1, 2))
    value = chance.randint(130, 10 ** chance.randint(3, 7)) / 10**decimals
    forms = [written(value, decimals, language) for language in (source, target)]
    texts = [CONTEXTS[context][LANGUAGES.index(language)] for language in (source, target)]
    return texts[0].format(forms[0]), texts[1].format(forms[1]), forms[0], forms[1]


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_number_in_the_format_of_the_target(context: str) -> None:
    chance = random.Random(context)
    for source, target in PAIRS * 8:
        text, translation, given, form = generated(chance, context, source, target)
        assert not lost_numbers(text, translation, target), (text, translation)
        place = chance.choice(
            [place for place, character in enumerate(form) if character.isdigit()]
        )
        changed = (
            form[:place] + str((int(form[place]) + chance.randint(1, 9)) % 10) + form[place + 1 :]
        )
        for wrong in (changed, "", f"{form} {form}"):
            assert lost_numbers(text, translation.replace(form, wrong), target), (
                text,
                translation,
                wrong,
            )
        if source != "en" or context != "plain":  # 2.5 birds may be a version
            copied = translation.replace(form, given)
            assert with_formats(text, copied, source, target) == translation, (text, copied)


@pytest.mark.parametrize("kind", FIXED)
def test_what_has_no_format_stays(kind: str) -> None:
    for source, target in PAIRS:
        for form in FIXED[kind]:
            text, translation = [
                CONTEXTS["plain"][LANGUAGES.index(each)].format(form) for each in (source, target)
            ]
            assert with_formats(text, translation, source, target) == translation
            assert not lost_numbers(text, translation, target)
            for wrong in ("", form[:-1], form.replace(form[0], "8", 1)):
                assert lost_numbers(text, translation.replace(form, wrong), target), (text, wrong)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_unit_belongs_to_its_number(source: str, target: str) -> None:
    chance, place = random.Random(f"{source} {target}"), LANGUAGES.index
    for unit, words in UNITS.items():
        for given, wanted in zip(BESIDE[place(source)], BESIDE[place(target)], strict=True):
            value = chance.randint(13, 999)
            text = given.format(f"{value} {unit}")
            said = [unit, unit.upper(), *words.split()[place(target) : place(target) + 1]]
            for each in said:
                assert lost_tokens(text, wanted.format(f"{value} {each}"), target) is None, (
                    text,
                    each,
                )
            for wrong in (value, f"{value + 1} {unit}", f"{value} x{unit}", unit):
                assert lost_tokens(text, wanted.format(wrong), target), (text, wrong)
            assert respelled(text, wanted.format(f"{value} {unit.upper()}")) == wanted.format(
                f"{value} {unit}"
            )


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_small_number_is_a_digit_or_a_word(source: str, target: str) -> None:
    words = {
        "en": "two three four five six seven eight nine ten eleven twelve",
        "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "fr": "deux trois quatre cinq six sept huit neuf dix onze douze",
        "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce",
    }[target].split()
    place = LANGUAGES.index
    for value, word in enumerate(words, 2):
        text, translation = (
            CONTEXTS["plain"][place(source)].format(value),
            CONTEXTS["plain"][place(target)],
        )
        for said in (str(value), word):
            assert not lost_numbers(text, translation.format(said), target)
        for wrong in ("", str(value + 1), words[value - 3]):
            assert lost_numbers(text, translation.format(wrong), target), (text, wrong)


@pytest.mark.parametrize("tokenizer", [SYMBOLS, NAMED], ids=["symbols", "names"])
async def test_a_hostile_model_loses_no_number_unnoticed(tokenizer) -> None:
    chance = random.Random(7)
    services = Services(Settings(), HostileEngine(tokenizer, 7), CATALOGS[tokenizer])
    await services.start()
    try:
        await services.loaded()
        for number in range(140):
            context = [*CONTEXTS][number % len(CONTEXTS)]
            text, _, _, form = generated(chance, context, "en", "de")
            if number % 3 == 0:
                form = chance.choice(FIXED[[*FIXED][number % len(FIXED)]])
                text = CONTEXTS["plain"][0].format(form)
            [found] = await services.translator.translate(
                TranslationRequest(texts=(text,), source="en", target="de")
            )
            [sentence] = found.legs[0].sentences
            values = [value for each in numbers(found.text) for value in each.values]
            kept = all(value in values for each in numbers(text) for value in each.values)
            assert kept or "number" in sentence.flags, (text, found.text, sentence.flags)
    finally:
        await services.stop()
