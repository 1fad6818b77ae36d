"""Detects the language of a text."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.text.languages import NAMES, resolve_language_code, script_of, scripts_of

log = logging.getLogger(__name__)

MODEL = Path(__file__).parent / "tables" / "languages.ftz"
"""Classifier of character n-grams in fastText's format. docs/models.md states how it was made."""
DETECTION_CHARACTERS = 1_000
"""Number of characters used for detection."""
LEAST, MOST_LABELS = 1e-4, 24
"""Probability that each language has at least, and number of the most probable ones that are read."""
SHORT_WEIGHT, LEAST_LETTERS, TWO_WORDS_WEIGHT = 22.0, 3, 1.0
"""Logarithm of the prior weight of a served language, times the letters of the text; the letters that count at least; and
the most that two words have, which say more than one word of as many letters. Other languages have 0, so that only short
texts depend on which languages are served."""
SHARPNESS = (0.85, 50, 1.4)
"""Exponent of the classifier's probabilities: the first number plus the letters of the text divided by the second, at
most the third."""
CALIBRATION = (0.75, 40, 1.1)
"""The same for the shares of the languages of a text, so that confidences are the shares of answers that are right."""
TARGET_WEIGHT, ENGLISH_WEIGHT, ACCEPTED_WEIGHT, LEAST_SHARE = 0.2, 4.0, 4.0, 0.1
"""Factors of the prior weight of a source language: the target itself; English if it is not the target; a language of
the reader; and a language that no other text of the request seems to be in."""
ITERATIONS = 8
UNSURE, LEAST_ALTERNATIVE = 60, 10
"""A language with less than the first confidence in percent has alternatives of at least the second."""
CERTAIN, CERTAIN_LETTERS = 0.99, 12
"""Probability that a text is not in the expected language, from which on it counts as in another one, and its letters."""
LATIN_1 = "\u00ff"
"""The last letter of Western European languages."""
_WORDS = re.compile(r"(?:[^\W\d_]++|[\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff'\u064b-\u0655]++)+|[¿¡]")
"""Words, with the vowel signs of scripts that write them as marks."""

Shares = NDArray[np.float64]
"""A number for each of `LanguageDetector.codes`: (languages,), or with a row for each text."""


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A possible language of a text. `confidence` is an integer from 0 to 100, the share of such answers that are right.
    `alternatives` are set only for the best one, if it is unsure."""

    language: str
    confidence: int
    alternatives: tuple[DetectedLanguage, ...] = ()


@lru_cache(maxsize=1)
def _classifier() -> tuple[Any, dict[str, int]]:
    """Returns the classifier and its languages that have a name, each with its place. Loads them in about 20 ms."""
    import fasttext

    model = fasttext.load_model(str(MODEL))
    labels = [label.removeprefix("__label__") for label in model.predict("a", k=1_000, threshold=-1.0)[0]]
    return model, {label: place for place, label in enumerate(sorted(NAMES.keys() & labels))}


class LanguageDetector:
    """Detects which language a text is in: one of the served `languages`, or another one that the classifier knows.
    `codes` are the languages of the classifier, by the served code where there is one. Can be used by any thread."""

    def __init__(self, languages: Iterable[str]) -> None:
        self.languages = tuple(sorted(set(languages)))

    def load(self) -> None:
        """Loads the classifier, which otherwise the first detection does. Can be called more than once."""
        if self._unknown:
            log.warning("languages that source=auto cannot detect: %s", ", ".join(self._unknown))

    @cached_property
    def codes(self) -> tuple[str, ...]:
        served = {_label(language): language for language in reversed(self.languages)}
        return tuple([served.get(label, label) for label in _classifier()[1]])

    @cached_property
    def _unknown(self) -> list[str]:
        return [language for language in self.languages if language not in self.codes]

    @cached_property
    def _served(self) -> NDArray[np.bool_]:
        return np.isin(self.codes, self.languages)

    def detect(self, text: str, target: str = "", accepted: Iterable[str] = ()) -> list[DetectedLanguage]:
        """Returns the possible languages of one text; see `detect_all`."""
        return self.detect_all((text,), target, accepted)[0]

    def other_language(self, text: str, expected: str) -> str | None:
        """Returns the language that a text is certainly in although `expected`, a served code, was expected. Returns
        None for a text that may be in this language, and where the classifier does not know it."""
        sample, label = text[:DETECTION_CHARACTERS], _label(expected)
        model, places = _classifier()
        place = places.get(label or "")
        if place is None or _letters(sample) < CERTAIN_LETTERS:
            return None
        if model.predict(words_of(sample))[0] == (f"__label__{label}",):  # takes a third of the time of the rest
            return None
        shares = _normalized(_likelihoods(sample))
        if shares[place] > 1 - CERTAIN or not shares.any():
            return None
        return self.codes[int(shares.argmax())]

    def detect_all(
        self, texts: Sequence[str], target: str = "", accepted: Iterable[str] = ()
    ) -> list[list[DetectedLanguage]]:
        """Returns for each text of a request its possible languages, the most probable first: every served language,
        and the others of at least LEAST_ALTERNATIVE percent. A text without letters has no language: all confidences
        are 0.

        `target` is the served code of the target, and `accepted` are codes of Accept-Language. Texts of a request are
        usually in one language: the shares of the languages in the other texts weigh each of them (expectation
        maximization). A repeated text counts once.
        """
        places: dict[str, int] = {}
        rows = [places.setdefault(text[:DETECTION_CHARACTERS], len(places)) for text in texts]
        likelihoods = np.array([_likelihoods(sample) for sample in places]).reshape(-1, len(self.codes))
        likelihoods *= self._prior(target, accepted, places)  # (texts, languages)
        shares = _normalized(likelihoods)
        count = int(likelihoods.any(axis=1).sum())
        for _ in range(ITERATIONS if count > 1 else 0):
            others = (shares.sum(axis=0) - shares) / (count - 1)
            shares = _normalized(likelihoods * (others + LEAST_SHARE / len(self.codes)))
        guesses = [self._guesses(*pair) for pair in zip(places, shares, strict=True)]
        return [list(guesses[row]) for row in rows]

    def _prior(self, target: str, accepted: Iterable[str], texts: Iterable[str]) -> Shares:
        """Returns the weights of the languages for a request with these texts: (languages,)."""
        words = [letters for text in texts for word in text.split(maxsplit=3) if (letters := _letters(word))]
        weight = SHORT_WEIGHT / max(LEAST_LETTERS, sum(words))
        weights = np.where(self._served, exp(min(weight, TWO_WORDS_WEIGHT) if len(words) == 2 else weight), 1.0)
        for language in {resolve_language_code(code, self.languages) for code in accepted}:
            if language in self.codes:
                weights[self.codes.index(language)] *= ACCEPTED_WEIGHT
        if target and target != "en" and "en" in self.languages:
            weights[self.codes.index("en")] *= ENGLISH_WEIGHT
        if target in self.codes:
            weights[self.codes.index(target)] *= TARGET_WEIGHT
        return weights

    def _guesses(self, sample: str, shares: Shares) -> list[DetectedLanguage]:
        """Returns the languages of one text, best first. The best one has at least 1% if the text has letters."""
        shares = _normalized(shares ** _exponent(sample, CALIBRATION))
        percents = np.rint(100 * shares)
        shown = np.flatnonzero(self._served | (percents >= LEAST_ALTERNATIVE)).tolist()
        shown.sort(key=lambda place: (-shares[place], self.codes[place] != "en"))
        guesses = [DetectedLanguage(self.codes[place], int(percents[place])) for place in shown]
        first, *others = guesses + [DetectedLanguage(language, 0) for language in self._unknown]
        if first.confidence < UNSURE and shares.any():
            likely = [guess for guess in others if guess.confidence >= LEAST_ALTERNATIVE]
            first = replace(first, confidence=max(1, first.confidence), alternatives=tuple(likely))
        return [first, *others]


@lru_cache(maxsize=1024)
def _label(language: str) -> str | None:
    """Returns the classifier's code of a language, or None if it does not know it."""
    return resolve_language_code(language, _classifier()[1])


@lru_cache(maxsize=256)
def _in_scripts(scripts: frozenset[str | None]) -> NDArray[np.bool_]:
    """Returns which languages are written in one of some scripts: (languages,)."""
    return np.array([not scripts_of(label).isdisjoint(scripts) for label in _classifier()[1]])


def _likelihoods(sample: str) -> Shares:
    """Returns for each language a number proportional to the probability of the text in it, calibrated: (languages,).
    A language that is not written in a script of the text has 0."""
    model, places = _classifier()
    likelihoods = np.full(len(places), LEAST)
    if words := words_of(sample):
        for label, share in zip(*model.predict(words, k=MOST_LABELS, threshold=LEAST), strict=True):
            if (place := places.get(label.removeprefix("__label__"))) is not None:
                likelihoods[place] = share
    return likelihoods ** _exponent(sample, SHARPNESS) * _in_scripts(frozenset(map(script_of, sample)))


def _exponent(sample: str, numbers: tuple[float, int, float]) -> float:
    first, letters, most = numbers
    return min(most, first + _letters(sample) / letters)


def words_of(text: str) -> str:
    """Returns a text as the classifier reads it: its words in small letters, divided by spaces. Names with letters
    beyond Latin-1 are left out where no other word has any and two are in small letters: Łódź is nice."""
    if not text.isascii():
        words = text.split()
        kept = [word for word in words if word.isascii() or word[0].islower() or max(word) <= LATIN_1]
        if len(kept) < len(words) and max("".join(kept), default=" ") <= LATIN_1 and sum(map(str.islower, kept)) > 1:
            text = " ".join(kept)
    return " ".join(_WORDS.findall(unicodedata.normalize("NFC", text.lower()).replace("’", "'")))


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def _normalized(values: Shares) -> Shares:
    """Returns the values divided by the sum of their row; zeros where all are."""
    totals = values.sum(axis=-1, keepdims=True)
    return values / np.where(totals, totals, 1.0)
