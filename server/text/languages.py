"""Names, codes, writing systems and frequent words of languages."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from server.kept import kept

LATIN = frozenset({"LATIN"})
_WORDS_PER_HIT = 20
"""A text is evidently in a language if more than one in this number of words is frequent in it."""
_ALIASES = (
    "pt-br pb",
    "zh-hans zh zh-cn cmn-hans cmn",
    "zh-hant zt zh-tw cmn-hant",
    "he iw",
    "nb no",
    "id in",
    "yi ji",
    "fil tl",
    "jv jw",
)
"""Codes of the same language, the most common one first."""
_FREQUENT_WORDS = {
    language: frozenset(words.split())
    for language, words in (
        ("en", "the of and you it that are with not this by she his but"),
        ("de", "und zu von ich ist sie ein mit auf dass für sich eine nicht wir"),
        ("fr", "et une je est ne qui pour par pas sur plus ont sont nous"),
        ("es", "el los más sus fue él ya hay muy dos han pero"),
    )
}
_TABLE = Path(__file__).parent / "tables" / "languages.txt"
_ROWS = [
    f"{row}||".split("|")[:3]
    for row in _TABLE.read_text(encoding="utf-8").splitlines()
    if not row.startswith("#")
]
NAMES: dict[str, str] = {code: name for code, name, _ in _ROWS if name}
"""English names by ISO 639-1 code, and the few longer codes that translation models use."""
SCRIPTS: dict[str, frozenset[str]] = {
    code: frozenset(scripts.split()) for code, _, scripts in _ROWS if scripts
}
"""Scripts by language: the first words of Unicode character names. Other languages are Latin."""


@kept(1024)
def primary_subtag(language: str) -> str:
    """Returns a language code in small letters, without region and script: "pt" for "pt-BR"."""
    return _spelling(language).split("-")[0]


def resolve_language_code(code: str, served: Collection[str]) -> str | None:
    """Returns the served code for a caller's code in any case, for an alias of it, or for it without
    its region (de-AT -> de). Returns None if there is none."""
    spelling = _spelling(code.strip())
    spellings = {_spelling(language): language for language in served}
    aliases = [alias for row in _ALIASES if spelling in row.split() for alias in row.split()]
    candidates = [spelling, *aliases]
    if "-" in spelling:
        candidates.append(primary_subtag(spelling))
    elif regional := sorted(other for other in spellings if other.startswith(spelling + "-")):
        candidates.append(regional[0])
    return next((spellings[candidate] for candidate in candidates if candidate in spellings), None)


def _spelling(code: str) -> str:
    return code.replace("_", "-").lower()


@kept(1024)
def scripts_of(language: str) -> frozenset[str]:
    return SCRIPTS.get(primary_subtag(language), LATIN)


@lru_cache(maxsize=65_536)
def script_of(character: str) -> str | None:
    """Returns the script of a letter ("LATIN"), or None for other characters."""
    if not character.isalpha():
        return None
    words = unicodedata.name(character, "?").split()
    return words[1] if words[0].endswith("WIDTH") and words[1:] else words[0]


def has_letters(text: str, language: str) -> bool:
    return any(map(scripts_of(language).__contains__, map(script_of, text)))


def is_evidently_in(text: str, language: str) -> bool:
    """Returns whether a text contains enough words that are frequent in this language and in few
    others. False is no evidence of another language."""
    frequent, words = _FREQUENT_WORDS.get(primary_subtag(language)), text.lower().split()
    return (
        frequent is not None
        and sum(map(frequent.__contains__, words)) > len(words) // _WORDS_PER_HIT
    )


def language_name(code: str) -> str:
    """Returns the English name of a language, or its code if the name is not known."""
    return NAMES.get(code) or NAMES.get(primary_subtag(code)) or code
