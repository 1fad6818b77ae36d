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

from server.text.languages import NAMES, resolve_language_code, script_of, scripts_of

MODEL = Path(__file__).parent / "tables" / "languages.ftz"  # docs/models.md states how it was made
DETECTION_CHARACTERS, LEAST, MOST_LABELS, ITERATIONS, TINY = 1_000, 1e-4, 24, 8, 1e-12
"""Characters and most probable labels that are read, and the least probability of each language."""
SHORT_WEIGHT, LEAST_LETTERS = 48.0, 3
"""Logarithm of the weight of a served language times the letters; three words have two thirds of it, more words half."""
MOST_WORDS, WORDS_WEIGHT, WORD_FACTOR, MOST_WEIGHT = 4, 3.4, 0.7, 3.0
"""The weight is at most the second plus the third times the logarithm of how much more probable a served language is than any
other for the most foreign of the first words, from 0 to the fourth: `Hotel Central` has no foreign word."""
SHARPNESS, CALIBRATION = (0.85, 50, 1.4), (0.2, 16, 1.1)
"""Exponents of the classifier's probabilities (letters) and of the shares of a text (bytes), which makes them the shares of
answers that are right: the first number plus the size of the text divided by the second, at most the third."""
TARGET_WEIGHT, ENGLISH_WEIGHT, ACCEPTED_WEIGHT, LEAST_SHARE = 0.2, 4.0, 4.0, 0.1
"""Factors of the weights of the target, of English beside another target, of a reader's language, of one in no other text."""
UNSURE, LEAST_ALTERNATIVE = 60, 10
"""Percents below which an answer has alternatives, and which these have at least."""
CERTAIN, CERTAIN_LETTERS, LATIN_1 = 0.99, 12, "\u00ff"
"""Probability and letters from which on a text is not in the expected language; the last letter of Western Europe."""
_WORDS = re.compile(r"(?:[^\W\d_]++|[\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff'\u064b-\u0655]++)+|[¿¡]")
Shares = NDArray[np.float64]  # a number for each of `LanguageDetector.codes`: (languages,), or a row for each text
Guesses = list["DetectedLanguage"]


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A possible language of a text, with the percentage of such answers that are right. Only the best has `alternatives`."""

    language: str
    confidence: int
    alternatives: tuple[DetectedLanguage, ...] = ()


@lru_cache(maxsize=1)
def _classifier() -> tuple[Any, dict[str, int]]:
    """Returns the classifier and the places of its languages that have a name. Loads them in about 20 ms."""
    import fasttext

    model = fasttext.load_model(str(MODEL))
    labels = [label.removeprefix("__label__") for label in model.predict("a", k=1_000, threshold=-1.0)[0]]
    return model, {label: place for place, label in enumerate(sorted(NAMES.keys() & labels))}


class LanguageDetector:
    """Detects which of the classifier's languages a text is in. `codes` are theirs, or those of the served `languages`. Can be
    used by any thread."""

    def __init__(self, languages: Iterable[str]) -> None:
        self.languages = tuple(sorted(set(languages)))

    def load(self) -> None:
        """Loads the classifier, which otherwise the first detection does."""
        if self._unknown:
            logging.getLogger(__name__).warning(
                "languages that source=auto cannot detect: %s", ", ".join(self._unknown)
            )

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

    def detect(self, text: str, target: str = "", accepted: Iterable[str] = ()) -> Guesses:
        """`detect_all` for one text."""
        return self.detect_all((text,), target, accepted)[0]

    def other_language(self, text: str, expected: str) -> str | None:
        """Returns the language that a text is certainly in, not the served code `expected`. None where it may be in this one,
        or the classifier does not know it."""
        sample, label = text[:DETECTION_CHARACTERS], _label(expected)
        model, places = _classifier()
        if (place := places.get(label or "")) is None or _letters(sample) < CERTAIN_LETTERS:
            return None
        if model.predict(words_of(sample))[0] == (f"__label__{label}",):  # takes a third of the time of the rest
            return None
        shares = _normalized(_likelihoods(sample))
        return self.codes[int(shares.argmax())] if shares.any() and shares[place] <= 1 - CERTAIN else None

    def detect_all(self, texts: Sequence[str], target: str = "", accepted: Iterable[str] = ()) -> list[Guesses]:
        """Returns the possible languages of each text of a request, the most probable first: all served ones, and others of at
        least LEAST_ALTERNATIVE percent. Without letters all have 0. `target` is a served code, `accepted` are those of
        Accept-Language. The shares in the other texts weigh each (expectation maximization); a repeated text counts once."""
        places: dict[str, int] = {}
        rows = [places.setdefault(text[:DETECTION_CHARACTERS], len(places)) for text in texts]
        likelihoods = np.array([_likelihoods(sample) for sample in places]).reshape(-1, len(self.codes))
        likelihoods *= self._prior(target, accepted, places, likelihoods)  # (texts, languages)
        shares = _normalized(likelihoods)
        count = int(likelihoods.any(axis=1).sum())
        for _ in range(ITERATIONS if count > 1 else 0):
            others = (shares.sum(axis=0) - shares) / (count - 1)
            shares = _normalized(likelihoods * (others + LEAST_SHARE / len(self.codes)))
        guesses = [self._guesses(*pair) for pair in zip(places, shares, strict=True)]
        return [list(guesses[row]) for row in rows]

    def _prior(self, target: str, accepted: Iterable[str], texts: Collection[str], likelihoods: Shares) -> Shares:
        """Returns the weights of the languages for a request with these texts: (languages,)."""
        words = [word for text in texts for word in text.split(maxsplit=MOST_WORDS) if _letters(word)][:MOST_WORDS]
        weight = SHORT_WEIGHT / max(LEAST_LETTERS, sum(map(_letters, texts))) / max(1, len(words) / 2)
        if len(words) > 1:
            weight = min(weight, self._words_weight(words, likelihoods))
        weights = np.where(self._served, exp(weight), 1.0)
        english = "en" if target not in ("", "en") and "en" in self.languages else ""
        favoured = dict.fromkeys([resolve_language_code(code, self.languages) for code in accepted], ACCEPTED_WEIGHT)
        for language, factor in [*favoured.items(), (english, ENGLISH_WEIGHT), (target, TARGET_WEIGHT)]:
            if language in self.codes:
                weights[self.codes.index(language)] *= factor
        return weights

    def _words_weight(self, words: Sequence[str], likelihoods: Shares) -> float:
        """Returns the logarithm of the largest weight of the served languages for texts with these first words."""
        if self._served.all() or self._served[likelihoods.argmax(axis=1)].all():
            return MOST_WEIGHT  # no weight changes which language is the best
        shares = np.maximum([_likelihoods(word) for word in words], TINY)  # (words, languages)
        ratios = shares[:, self._served] / shares[:, ~self._served].max(axis=1, keepdims=True)
        least = np.log(ratios.min(axis=0).max()) if ratios.size else 0.0
        return float(np.clip(WORDS_WEIGHT + WORD_FACTOR * least, 0, MOST_WEIGHT))

    def _guesses(self, sample: str, shares: Shares) -> Guesses:
        """Returns the languages of one text, the best with at least 1% if the text has letters."""
        shares = _normalized(_raised(shares, len(sample.encode("utf-8", "replace")), CALIBRATION))
        percents = np.rint(100 * shares)
        shown = np.flatnonzero(self._served | (percents >= LEAST_ALTERNATIVE)).tolist()
        shown.sort(key=lambda place: (-shares[place], self.codes[place] != "en"))
        guesses = [DetectedLanguage(self.codes[place], int(percents[place])) for place in shown]
        first, *others = guesses + [DetectedLanguage(language, 0) for language in self._unknown]
        if first.confidence < UNSURE and shares.any():
            likely = tuple([guess for guess in others if guess.confidence >= LEAST_ALTERNATIVE])
            first = DetectedLanguage(first.language, max(1, first.confidence), likely)
        return [first, *others]


@lru_cache(maxsize=1024)
def _label(language: str) -> str | None:
    return resolve_language_code(language, _classifier()[1])


@lru_cache(maxsize=256)
def _in_scripts(scripts: frozenset[str | None]) -> NDArray[np.bool_]:
    """Returns which languages are written in one of some scripts: (languages,)."""
    return np.array([not scripts_of(label).isdisjoint(scripts) for label in _classifier()[1]])


def _likelihoods(sample: str) -> Shares:
    """Returns a number for each language that is proportional to its probability, 0 in other scripts: (languages,)."""
    model, places = _classifier()
    likelihoods = np.full(len(places), LEAST)
    if words := words_of(sample):
        for label, share in zip(*model.predict(words, k=MOST_LABELS, threshold=LEAST), strict=True):
            if (place := places.get(label.removeprefix("__label__"))) is not None:
                likelihoods[place] = share
    return _raised(likelihoods, _letters(sample), SHARPNESS) * _in_scripts(frozenset(map(script_of, sample)))


def words_of(text: str) -> str:
    """Returns a text as the classifier reads it: words with vowel marks in small letters, divided by spaces. Names beyond
    Latin-1 are left out where no other word is and two are in small letters: Łódź is nice."""
    if not text.isascii():
        kept = [word for word in text.split() if word.isascii() or word[0].islower() or max(word) <= LATIN_1]
        if max("".join(kept), default=" ") <= LATIN_1 and sum(map(str.islower, kept)) > 1:
            text = " ".join(kept)
    return " ".join(_WORDS.findall(unicodedata.normalize("NFC", text.lower()).replace("’", "'")))


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def _raised(values: Shares, size: int, exponent: tuple[float, int, float]) -> Shares:
    return values ** min(exponent[2], exponent[0] + size / exponent[1])


def _normalized(values: Shares) -> Shares:
    """Returns the values divided by the sum of their row, which may be 0."""
    totals = values.sum(axis=-1, keepdims=True)
    return values / np.where(totals, totals, 1.0)
