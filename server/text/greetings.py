"""Greetings and short answers, and the languages that have them. The statistics of lingua take "Hello" for Spanish."""

from __future__ import annotations

import re
from functools import lru_cache

_ROWS = """
en: hello, hello there, hi, hi there, hey, bye, bye bye, goodbye, good morning, good evening, good night, see you, see you later
en: thanks, thank you, thank you very much, welcome, yes, yes please, no thanks, please, no problem, how are you
de: hallo, guten tag, guten morgen, guten abend, gute nacht, tschüss, auf wiedersehen, servus, moin, bis bald, bis später
de: bis morgen, danke, danke schön, vielen dank, bitte, bitte schön, willkommen, ja, ja bitte, nein, nein danke, wie geht's
fr: salut, bonjour, bonsoir, bonne nuit, bonne journée, au revoir, à bientôt, à demain, enchanté, allô
fr: merci, merci beaucoup, de rien, bienvenue, oui, non, non merci, s'il vous plaît, s'il te plaît, d'accord, ça va
es: hola, buenos días, buenas tardes, buenas noches, adiós, adios, hasta luego, hasta mañana, hasta pronto, mucho gusto
es: gracias, muchas gracias, de nada, por favor, bienvenido, bienvenida, bienvenidos, sí, no gracias, qué tal, cómo estás
ca: hola, salut, merci, sí
da: ja
gl: de nada, hola, non, por favor
nb: hallo, ja
nl: hallo, ja, moin
pt: de nada, por favor
ro: salut
sv: ja
"""
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_LONGEST = 40
"""A text of more characters is no greeting."""


@lru_cache(maxsize=1)
def _table() -> dict[str, frozenset[str]]:
    """Returns the languages of each greeting."""
    found: dict[str, set[str]] = {}
    for row in _ROWS.strip().splitlines():
        language, _, greetings = row.partition(": ")
        for greeting in greetings.split(", "):
            found.setdefault(greeting, set()).add(language)
    return {greeting: frozenset(languages) for greeting, languages in found.items()}


def greeting_languages(text: str) -> frozenset[str]:
    """Returns the codes of the languages in which the whole text is a greeting or a short answer; empty for other texts.
    Case and punctuation do not matter."""
    if len(text) > _LONGEST:
        return frozenset()
    return _table().get(" ".join(_WORD.findall(text.replace("’", "'").lower())), frozenset())
