"""Names, codes and writing systems of languages."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from server.kept import kept

LATIN = frozenset({"LATIN"})
_WORDS_PER_HIT = 20
"""A text is evidently in a language if it has more of its frequent words than one in this many
words."""


@lru_cache
def table(name: str) -> list[str]:
    """Returns the rows of a table in `tables/`."""
    rows = (
        (Path(__file__).parent / "tables" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    )
    return [row for row in rows if not row.startswith("#")]


_ROWS = [f"{row}||".split("|")[:3] for row in table("languages")]
NAMES: dict[str, str] = {code: name for code, name, _ in _ROWS if name}
"""English names by ISO 639-1 code, and the few longer codes that translation models use."""
SCRIPTS: dict[str, frozenset[str]] = {
    code: frozenset(scripts.split()) for code, _, scripts in _ROWS if scripts
}
"""First words of Unicode character names, by language. Other languages are written in Latin
letters."""


@kept(1024)
def primary_subtag(language: str) -> str:
    """Returns a language code without region and script, in small letters: "pt" for "pt-BR", "zh"
    for "zh_Hant"."""
    return _spelling(language).split("-")[0]


def resolve_language_code(code: str, served: Collection[str]) -> str | None:
    """Returns the served code for a caller's code, or None. The code matches in any case, by an
    alias, or without its region (de-AT -> de)."""
    spelling = _spelling(code.strip())
    spellings = {_spelling(language): language for language in served}
    aliases = [
        alias for row in table("aliases") if spelling in row.split() for alias in row.split()
    ]
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
    """Returns the writing systems of a language code. Region and script subtags are ignored."""
    return SCRIPTS.get(primary_subtag(language), LATIN)


@lru_cache(maxsize=65_536)
def script_of(character: str) -> str | None:
    """Returns the writing system of a letter ("LATIN"), or None for other characters."""
    if not character.isalpha():
        return None
    words = unicodedata.name(character, "?").split()
    return words[1] if words[0].endswith("WIDTH") and words[1:] else words[0]


def has_letters(text: str, language: str) -> bool:
    """Returns whether a text has a letter that the language is written with."""
    return any(map(scripts_of(language).__contains__, map(script_of, text)))


def is_evidently_in(text: str, language: str) -> bool:
    """Returns whether a text contains enough words that are frequent in this language and in few
    others. False is no evidence of another language. Takes a tenth of the time of a detection."""
    frequent, words = _frequent_words().get(primary_subtag(language)), text.lower().split()
    return (
        frequent is not None
        and sum(map(frequent.__contains__, words)) > len(words) // _WORDS_PER_HIT
    )


@lru_cache(maxsize=1)
def _frequent_words() -> dict[str, frozenset[str]]:
    rows = [row.partition(": ") for row in table("frequent_words")]
    return {language: frozenset(words.split()) for language, _, words in rows}


def language_name(code: str) -> str:
    """Returns the English name of a language, or the code itself if it is not in the table."""
    return NAMES.get(code) or NAMES.get(primary_subtag(code)) or code
