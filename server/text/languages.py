"""Names and writing systems of languages, and whether a text has anything to translate.

A text without a letter of its source language (numbers, emoji, an address, a foreign script) is copied, because a model
does not translate it usefully.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

LATIN = frozenset({"LATIN"})
_SCRIPTS = """
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
    for row in _SCRIPTS.strip().splitlines()
    for code in row.partition("=")[0].split()
}

# Web addresses, e-mail addresses and handles. Words in them are not translated.
ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.\-]{1,30}://|www\.)[^\s<>]+|[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63})+|(?<!\w)@\w+",
    re.IGNORECASE,
)

_NAMES = """
aa Afar|ab Abkhazian|ae Avestan|af Afrikaans|ak Akan|am Amharic|an Aragonese|ar Arabic|as Assamese|av Avaric|ay Aymara
az Azerbaijani|ba Bashkir|be Belarusian|bg Bulgarian|bh Bihari|bi Bislama|bm Bambara|bn Bengali|bo Tibetan|br Breton
bs Bosnian|ca Catalan|ce Chechen|ch Chamorro|co Corsican|cr Cree|cs Czech|cu Church Slavonic|cv Chuvash|cy Welsh
da Danish|de German|dv Divehi|dz Dzongkha|ee Ewe|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque
fa Persian|ff Fulah|fi Finnish|fj Fijian|fo Faroese|fr French|fy Western Frisian|ga Irish|gd Scottish Gaelic
gl Galician|gn Guarani|gu Gujarati|gv Manx|ha Hausa|he Hebrew|hi Hindi|ho Hiri Motu|hr Croatian|ht Haitian Creole
hu Hungarian|hy Armenian|hz Herero|ia Interlingua|id Indonesian|ie Interlingue|ig Igbo|ii Sichuan Yi|ik Inupiaq|io Ido
is Icelandic|it Italian|iu Inuktitut|ja Japanese|jv Javanese|ka Georgian|kg Kongo|ki Kikuyu|kj Kuanyama|kk Kazakh
kl Kalaallisut|km Khmer|kn Kannada|ko Korean|kr Kanuri|ks Kashmiri|ku Kurdish|kv Komi|kw Cornish|ky Kyrgyz|la Latin
lb Luxembourgish|lg Ganda|li Limburgish|ln Lingala|lo Lao|lt Lithuanian|lu Luba-Katanga|lv Latvian|mg Malagasy
mh Marshallese|mi Maori|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|na Nauru
nb Norwegian Bokmål|nd North Ndebele|ne Nepali|ng Ndonga|nl Dutch|nn Norwegian Nynorsk|no Norwegian|nr South Ndebele
nv Navajo|ny Chichewa|oc Occitan|oj Ojibwa|om Oromo|or Odia|os Ossetian|pa Punjabi|pi Pali|pl Polish|ps Pashto
pt Portuguese|pt-BR Portuguese (Brazil)|pt-PT Portuguese (Portugal)|qu Quechua|rm Romansh|rn Rundi|ro Romanian
ru Russian|rw Kinyarwanda|sa Sanskrit|sc Sardinian|sd Sindhi|se Northern Sami|sg Sango|sh Serbo-Croatian|si Sinhala
sk Slovak|sl Slovenian|sm Samoan|sn Shona|so Somali|sq Albanian|sr Serbian|ss Swati|st Southern Sotho|su Sundanese
sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|ti Tigrinya|tk Turkmen|tl Tagalog|tn Tswana|to Tonga
tr Turkish|ts Tsonga|tt Tatar|tw Twi|ty Tahitian|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|ve Venda|vi Vietnamese
vo Volapük|wa Walloon|wo Wolof|xh Xhosa|yi Yiddish|yo Yoruba|za Zhuang|zh Chinese|zh-Hans Chinese (simplified)
zh-Hant Chinese (traditional)|zu Zulu|en-GB English (British)|en-US English (American)
"""

NAMES: dict[str, str] = {
    code: name for entry in _NAMES.replace("\n", "|").split("|") if entry for code, name in [entry.split(" ", 1)]
}
"""English names by ISO 639-1 code, and the few longer codes that translation models use."""


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


def language_name(code: str) -> str:
    """Returns the English name of a language, or the code itself if it is not in the table."""
    return NAMES.get(code) or NAMES.get(primary_subtag(code)) or code
