"""Languages that are not served: the probability that a text is in one of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import lingua

from server.text.frequent_words import greeting_languages
from server.text.languages import has_letters, primary_subtag, table

OTHER_LANGUAGES = (
    "it pt nl ca ro pl sv da nb fi cs hu tr id ru uk el ja zh ko ar he hi th vi sk sl hr et lv lt bg is sq"
).split()
"""Languages that are recognized although they may not be served. They take 50 MB and 0.6 s of one core."""
CERTAIN, NOT_SERVED = 0.99, 0.98
"""Least probability of one language that is certain, and of all together in which a text is in no served language."""
LETTERS = 12
"""A language that is not served is certain only with this probability and this many letters. In 8,000 sentences of served
languages this is wrong once in 2,000, and the shorter texts are the less certain ones."""
SHORT = 40
"""Longer texts, in letters, are in a served language unless they are certainly in another one."""
SERVED_ODDS, LEAST_ODDS = 80.0, 0.02
"""How often a text is in a served language for each one that is not, and the least odds after a short text is read."""
FOREIGN_WORD = 0.02
"""Factor of the probability of a language for each word with a letter that it is not written with."""
_LEAST = 1e-4
"""Least share of a language that is weighed by its letters."""
_WORD = re.compile(r"[^\W\d_]+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class OtherLanguages:
    """The languages beside those that are `served`. Loads their statistics."""

    def __init__(self, served: Iterable[str]) -> None:
        codes = [code for code in map(iso_code, served) if code]
        self._served = frozenset([code.name.lower() for code in codes])
        self._codes = [code for code in OTHER_LANGUAGES if code not in self._served]
        self._detector = build_detector({*codes, *filter(None, map(iso_code, self._codes))}, detailed=False)

    def shares(self, text: str, readable: bool = True) -> dict[str, float]:
        """Returns the probability of each language that is not served; the rest is that of the served ones. Only one that is
        certain has CERTAIN or more. A text that is not `readable` is in no script of a served
        language."""
        if greeting := greeting_languages(text):
            known = frozenset() if greeting & self._served else greeting
            return dict.fromkeys(sorted(known), CERTAIN / max(1, len(known)))
        found = self._detector.compute_language_confidence_values(text)
        read = {each.language.iso_code_639_1.name.lower(): each.value for each in found if each.value > 0}
        if not readable and not read:  # too short for statistics
            scripts = [code for code in self._codes if has_letters(text, code)]
            read = dict.fromkeys(scripts, 1 / max(1, len(scripts)))
        values = _weighed(text, read)
        served = sum([values.pop(code, 0.0) for code in self._served])
        letters = sum(map(str.isalpha, text))
        best = max(values, key=lambda code: values[code], default="")
        if not readable or (letters >= LETTERS and best and min(values[best], read[best]) >= CERTAIN):
            odds = served
        elif letters > SHORT or not values:
            return {}
        else:
            odds = max(LEAST_ODDS, SERVED_ODDS * served)
        total = odds + sum(values.values())
        return {code: value / total for code, value in values.items()}

    def certain(self, text: str) -> str | None:
        """Returns the language that a text in the script of a served language is certainly in, if it is not served."""
        shares = self.shares(text)
        return next((code for code, share in shares.items() if share >= CERTAIN), None)


@lru_cache(maxsize=1)
def _letters() -> dict[str, frozenset[str]]:
    """Returns the letters beyond a to z of languages in Latin script."""
    return {code: frozenset(letters) for code, _, letters in [row.partition(": ") for row in table("letters")]}


def _weighed(text: str, shares: dict[str, float]) -> dict[str, float]:
    """Returns the shares of languages, which are 1 together, weighed by the letters that they are written with."""
    likely = dict(shares)
    if text.isascii() or not likely:
        return likely
    text = unicodedata.normalize("NFC", text).lower()
    words = [frozenset(_NOT_ASCII.findall(word)) for word in _WORD.findall(text)]
    for code, share in likely.items():
        if share > _LEAST and (letters := _letters().get(code)) is not None:
            likely[code] = share * FOREIGN_WORD ** sum([not word <= letters for word in words])
    total = sum(likely.values())
    return {code: share / total for code, share in likely.items()}


def build_detector(codes: Iterable[lingua.IsoCode639_1], *, detailed: bool) -> lingua.LanguageDetector:
    """Returns a detector with its statistics loaded. Without `detailed` it compares only trigrams."""
    builder = lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*codes)
    if not detailed:
        builder = builder.with_low_accuracy_mode()
    return builder.with_preloaded_language_models().build()


def iso_code(language: str) -> lingua.IsoCode639_1 | None:
    """Returns the code of a language in the lingua library, or None if the library does not support it."""
    code = primary_subtag(language)
    return getattr(lingua.IsoCode639_1, {"no": "nb", "cmn": "zh", "fil": "tl"}.get(code, code).upper(), None)
