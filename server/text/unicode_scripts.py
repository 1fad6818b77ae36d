"""Writing systems of languages, and whether a text has anything to translate.

A text without a letter of its source language (numbers, emoji, an address, a foreign script) is copied, because a model
does not translate it usefully.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

LATIN = frozenset({"LATIN"})
_ROWS = """
ru uk be bg mk mn kk ky tg tt ba cv ce kv os ab av cu = CYRILLIC
sr bs sh uz az tk = CYRILLIC LATIN
el = GREEK
he iw yi = HEBREW
ar fa ur ps sd ug = ARABIC
ku = ARABIC LATIN
hi mr ne sa bh pi = DEVANAGARI
ks = ARABIC DEVANAGARI
bn as = BENGALI
pa = GURMUKHI ARABIC
gu = GUJARATI
or = ORIYA
ta = TAMIL
te = TELUGU
kn = KANNADA
ml = MALAYALAM
si = SINHALA
th = THAI
lo = LAO
my = MYANMAR
km = KHMER
bo dz = TIBETAN
ka = GEORGIAN
hy = ARMENIAN
am ti = ETHIOPIC
dv = THAANA
iu = CANADIAN
zh zt cmn = CJK
ja = HIRAGANA KATAKANA CJK
ko = HANGUL CJK
"""
# First words of Unicode character names, by language. A language that is not listed is written in Latin letters.
SCRIPTS: dict[str, frozenset[str]] = {
    code: frozenset(row.partition("=")[2].split())
    for row in _ROWS.strip().splitlines()
    for code in row.partition("=")[0].split()
}

# Web addresses, e-mail addresses and handles. Words in them are not translated.
ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.\-]{1,30}://|www\.)[^\s<>]+|[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63})+|(?<!\w)@\w+",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def primary_subtag(language: str) -> str:
    """Returns a language code without region and script, in small letters: "pt" for "pt-BR", "zh" for "zh_Hant"."""
    return language.replace("_", "-").split("-")[0].lower()


@lru_cache(maxsize=1024)
def scripts_of(language: str) -> frozenset[str]:
    """Returns the writing systems of a language code. Region and script subtags are ignored."""
    return SCRIPTS.get(primary_subtag(language), LATIN)


@lru_cache(maxsize=65_536)
def script_of(character: str) -> str | None:
    """Returns the writing system of a letter ("LATIN"), or None for other characters."""
    if not character.isalpha():
        return None
    words = unicodedata.name(character, "UNKNOWN").split()
    # FULLWIDTH LATIN ..., HALFWIDTH KATAKANA ...: the first word is the width, the second the writing system.
    return words[1] if words[0] in ("FULLWIDTH", "HALFWIDTH") and len(words) > 1 else words[0]


def has_letters(text: str, language: str) -> bool:
    """Returns whether a text has a letter that the language is written with."""
    scripts = scripts_of(language)
    return any(script_of(character) in scripts for character in text)


def is_translatable(text: str, language: str) -> bool:
    """Returns whether a text has a letter of the language outside web and e-mail addresses."""
    if not has_letters(text, language):
        return False
    return has_letters(ADDRESS.sub(" ", text), language) if may_hold_address(text) else True


def may_hold_address(text: str) -> bool:
    """Returns False where `ADDRESS` cannot match. This test is much faster than the search."""
    return "@" in text or "://" in text or "www." in text.lower()
