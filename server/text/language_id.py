"""Detects the language of a text."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.text.languages import resolve_language_code, script_of, scripts_of

# docs/models.md states how it was made
LABEL, MODEL = "__label__", Path(__file__).parent / "tables" / "languages.ftz"
DETECTION_CHARACTERS, LEAST, MOST_LABELS, ITERATIONS, TINY = 1_000, 1e-4, 24, 8, 1e-12
"""Characters and most probable labels that are read, and the least probability of each language."""
WEIGHT, MORE_LETTERS = 90.0, (6, 19)
"""Logarithm of the weight of a served language times the letters, and the letters that are added for
one word and for several."""
MOST_WORDS, FOREIGN_FACTOR = 4, 0.2
"""Words that are also read one by one. The most foreign of them lowers the weight by the factor times
the logarithm of how much less probable the served languages are for it."""
SHARPNESS, CALIBRATION = (0.85, 50, 1.4), (0.1, 15, 1.1)
"""Exponents of the classifier's probabilities (by letters) and of the shares of a text (by bytes),
which become the shares of right answers. An exponent is the first number plus the size of the text
divided by the second, at most the third."""
TARGET_WEIGHT, ENGLISH_WEIGHT, ACCEPTED_WEIGHT, LEAST_SHARE = 0.2, 4.0, 4.0, 0.1
"""Factors of the weights of the target, of English if it is not the target, of a reader's language, of
a language in no other text."""
UNSURE, LEAST_ALTERNATIVE = 60, 10
"""Percents below which an answer has alternatives, and the least percents of these."""
CERTAIN, CERTAIN_LETTERS, LATIN_1 = 0.99, 12, "\u00ff"
"""Probability and letters from which on a text is in another language than expected; the last Western
European letter."""
_WORDS = re.compile(
    r"(?:[^\W\d_]++|[\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff'\u064b-\u0655]++)+|[¿¡]"
)
# a number for each of `LanguageDetector.codes`: (languages,), or a row for each text
Shares = NDArray[np.float64]
Guesses = list["DetectedLanguage"]


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A possible language of a text, with the percentage of such answers that are right. Only the best
    one has `alternatives`."""

    language: str
    confidence: int
    alternatives: tuple[DetectedLanguage, ...] = ()


_guess = lru_cache(maxsize=4096)(DetectedLanguage)


@lru_cache(maxsize=1)
def _classifier() -> tuple[Any, dict[str, int]]:
    import fasttext

    model = fasttext.load_model(str(MODEL))
    labels = sorted(model.predict("a", k=1_000, threshold=-1.0)[0])
    return model, {label: place for place, label in enumerate(labels)}


@lru_cache(maxsize=1)
def known_languages() -> tuple[str, ...]:
    """Returns the languages of the classifier in the order of their places."""
    return tuple([label.removeprefix(LABEL) for label in _classifier()[1]])


class LanguageDetector:
    """Detects the language of a text. `codes` are those of the served `languages`, or the classifier's
    for others. Can be used by any thread."""

    def __init__(self, languages: Iterable[str]) -> None:
        self.languages = tuple(sorted(set(languages)))

    def load(self) -> None:
        """Loads the classifier, which is otherwise loaded at the first detection."""
        if unknown := ", ".join(self._unknown):
            logging.getLogger(__name__).warning(
                "languages that source=auto cannot detect: %s", unknown
            )

    @cached_property
    def codes(self) -> tuple[str, ...]:
        served = {
            resolve_language_code(code, known_languages()): code
            for code in reversed(self.languages)
        }
        return tuple([served.get(language, language) for language in known_languages()])

    @cached_property
    def _unknown(self) -> list[str]:
        return [language for language in self.languages if language not in self.codes]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {code: place for place, code in enumerate(self.codes)}

    @cached_property
    def _served(self) -> NDArray[np.bool_]:
        return np.isin(self.codes, self.languages)

    def detect(self, text: str, target: str = "", accepted: Iterable[str] = ()) -> Guesses:
        return self.detect_all((text,), target, accepted)[0]

    def other_language(self, text: str, expected: str) -> str | None:
        """Returns the language of a text that is certainly not in the served language `expected`,
        otherwise None."""
        words, place = words_of(text[:DETECTION_CHARACTERS]), self._places.get(expected)
        if place is None or _letters(words) < CERTAIN_LETTERS:
            return None
        if _classifier()[0].predict(words)[0] == (LABEL + known_languages()[place],):
            return None
        shares = _normalized(_likelihoods(words))
        if shares.any() and shares[place] <= 1 - CERTAIN:
            return self.codes[int(shares.argmax())]
        return None

    def detect_all(
        self, texts: Sequence[str], target: str = "", accepted: Iterable[str] = ()
    ) -> list[Guesses]:
        """Returns the possible languages of each text of a request, the most probable first: all
        served ones, and others of at least LEAST_ALTERNATIVE percent. Without letters all have 0.
        `target` is a served code, `accepted` are the codes of Accept-Language. The languages of the
        other texts are weights (expectation maximization); a repeated text counts once."""
        places: dict[str, int] = {}
        rows = [
            places.setdefault(words_of(text[:DETECTION_CHARACTERS]), len(places)) for text in texts
        ]
        likelihoods = np.array([_likelihoods(words) for words in places]).reshape(
            -1, len(self.codes)
        )
        likelihoods *= self._prior(target, accepted, places, likelihoods)  # (texts, languages)
        shares, others = likelihoods, len(places) - ("" in places) - 1
        weights: Shares | float = 1.0
        for step in range(ITERATIONS + 1 if others > 0 else 0):
            if step:
                weights = (shares.sum(axis=0) - shares) / others + LEAST_SHARE / len(self.codes)
            shares = _normalized(likelihoods * weights)
        guesses = [self._guesses(*pair) for pair in zip(places, shares, strict=True)]
        return [list(guesses[row]) for row in rows]

    def _prior(
        self, target: str, accepted: Iterable[str], texts: Collection[str], likelihoods: Shares
    ) -> Shares:
        """Returns the weights of the languages for a request with these texts: (languages,)."""
        weights = np.where(self._served, exp(self._weight(texts, likelihoods)), 1.0)
        factors = dict.fromkeys(
            [resolve_language_code(code, self.languages) for code in accepted], ACCEPTED_WEIGHT
        )
        english = (
            [("en", ENGLISH_WEIGHT)] if target not in ("", "en") and "en" in self.languages else []
        )
        for language, factor in [*factors.items(), *english, (target, TARGET_WEIGHT)]:
            if (place := self._places.get(language or "")) is not None:
                weights[place] *= factor
        return weights

    def _weight(self, texts: Collection[str], likelihoods: Shares) -> float:
        """Returns the logarithm of the weight of the served languages for these texts."""
        words = " ".join(filter(None, texts))
        weight = WEIGHT / (MORE_LETTERS[" " in words] + _letters(words))
        if " " not in words or self._served[likelihoods.argmax(axis=1)].all():
            return weight  # a smaller one does not change which language is the best
        # (words, languages)
        shares = np.maximum([_likelihoods(word) for word in words.split()[:MOST_WORDS]], TINY)
        ratios = np.log(
            shares[:, self._served] / shares[:, ~self._served].max(axis=1, keepdims=True)
        )
        return max(
            0.0, weight + FOREIGN_FACTOR * min(0.0, float(ratios.min(axis=0).max(initial=-100.0)))
        )

    def _guesses(self, words: str, shares: Shares) -> Guesses:
        """Returns the languages of one text, the best with at least 1% if the text has letters."""
        shares = shares ** _exponent(len(words.encode()), CALIBRATION)
        percent = float(shares.sum()) / 100 or 1.0
        shown = (
            (self._served | (shares >= (LEAST_ALTERNATIVE - 0.5) * percent)).nonzero()[0].tolist()
        )
        ranked = sorted(
            [(-shares.item(place), self.codes[place] != "en", place) for place in shown]
        )
        guesses = [_guess(self.codes[place], round(-share / percent)) for share, _, place in ranked]
        first, *others = guesses + [_guess(language, 0) for language in self._unknown]
        if first.confidence < UNSURE and shares.any():
            likely = tuple([guess for guess in others if guess.confidence >= LEAST_ALTERNATIVE])
            first = DetectedLanguage(first.language, max(1, first.confidence), likely)
        return [first, *others]


@lru_cache(maxsize=256)
def _in_scripts(scripts: frozenset[str | None]) -> NDArray[np.bool_]:
    return np.array(
        [not scripts_of(language).isdisjoint(scripts) for language in known_languages()]
    )


def _likelihoods(words: str) -> Shares:
    """Returns numbers that are proportional to the probabilities of the languages, 0 for other
    scripts: (languages,)."""
    (model, places), exponent = _classifier(), _exponent(_letters(words), SHARPNESS)
    likelihoods = np.full(len(places), LEAST**exponent)
    if words:
        labels, shares = model.predict(words, k=MOST_LABELS, threshold=LEAST)
        likelihoods[[places[label] for label in labels]] = np.array(shares) ** exponent
    return likelihoods * _in_scripts(frozenset(map(script_of, set(words))))


def words_of(text: str) -> str:
    """Returns a text as the classifier reads it: words in small letters, with vowel marks, separated by
    spaces. Names beyond Latin-1 are left out of a text with two words in small letters: Łódź is
    nice."""
    if not text.isascii():
        kept = [
            word
            for word in text.split()
            if word.isascii() or word[0].islower() or max(word) <= LATIN_1
        ]
        if max("".join(kept), default=" ") <= LATIN_1 and sum(map(str.islower, kept)) > 1:
            text = " ".join(kept)
    return " ".join(_WORDS.findall(unicodedata.normalize("NFC", text.lower()).replace("’", "'")))


def _letters(words: str) -> int:
    return len(words) - words.count(" ")


def _exponent(size: int, numbers: tuple[float, int, float]) -> float:
    return min(numbers[2], numbers[0] + size / numbers[1])


def _normalized(values: Shares) -> Shares:
    """Returns the values divided by the sums of their rows, which may be 0."""
    totals: Shares = np.maximum(values.sum(axis=-1, keepdims=True), 1e-300)
    return values / totals
