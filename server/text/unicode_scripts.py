"""Writing systems: which letters a language is written with, and so whether a text holds anything to translate.

A model can do nothing good with a text that has no letter of its source language: numbers, emoji, an address, a script
that it never saw. Such a text is copied.
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
# First words of Unicode character names, by language; one that is not listed is written in Latin letters.
SCRIPTS: dict[str, frozenset[str]] = {
    code: frozenset(row.partition("=")[2].split())
    for row in _ROWS.strip().splitlines()
    for code in row.partition("=")[0].split()
}

# Web and e-mail addresses, handles and hashes: what looks like words in them is not to be translated.
ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.\-]{1,30}://|www\.)[^\s<>]+|[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63})+|(?<!\w)@\w+",
    re.IGNORECASE,
)


def scripts_of(language: str) -> frozenset[str]:
    """The writing systems of a language code, region or script subtag ignored."""
    return SCRIPTS.get(language.replace("_", "-").split("-")[0].lower(), LATIN)


@lru_cache(maxsize=65_536)
def script_of(character: str) -> str | None:
    """The writing system of a letter ("LATIN"), or None for anything that is not a letter."""
    if not character.isalpha():
        return None
    words = unicodedata.name(character, "UNKNOWN").split()
    # FULLWIDTH LATIN ..., HALFWIDTH KATAKANA ...: the width is no writing system.
    return words[1] if words[0] in ("FULLWIDTH", "HALFWIDTH") and len(words) > 1 else words[0]


def has_letters(text: str, language: str) -> bool:
    """Whether a text has a letter that the language is written with."""
    scripts = scripts_of(language)
    return any(script_of(character) in scripts for character in text)


def is_translatable(text: str, language: str) -> bool:
    """Whether there is anything to translate: a letter of the language outside web and e-mail addresses."""
    if not has_letters(text, language):
        return False
    return has_letters(ADDRESS.sub(" ", text), language) if may_hold_address(text) else True


def may_hold_address(text: str) -> bool:
    """False where `ADDRESS` cannot match: far quicker to tell than to search for it."""
    return "@" in text or "://" in text or "www." in text.lower()
