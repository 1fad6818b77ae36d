"""Resolves language codes of callers and detects the language of a text."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import lingua

from server.text.frequent_words import evident_language, greeting_languages
from server.text.languages import has_letters, primary_subtag, table
from server.text.other_languages import NOT_SERVED, OTHER_LANGUAGES, OtherLanguages, build_detector, iso_code

log = logging.getLogger(__name__)

DETECTION_CHARACTERS = 1_000
"""Number of characters used for detection. They take about 2 ms; more characters take longer and do not improve it."""
DETAILED_LANGUAGES = 24
"""With more languages only trigrams are compared: the full statistics of 75 languages take 1.2 GB."""


ITERATIONS = 3
UNSURE, LEAST_ALTERNATIVE, UNDECIDED = 60, 10, 49
"""A language that is detected with less than the first confidence in percent has alternatives of at least the second. One
that is not served and not certain has at most the third."""
TARGET_WEIGHT, ENGLISH_WEIGHT, ACCEPTED_WEIGHT, LEAST_SHARE = 0.1, 3.0, 3.0, 0.2
"""Prior weights of a source language: the target itself; English if it is not the target; a language of the reader; and of
a language that no other text of the request seems to be in. Chosen with SHARPNESS by the accuracy on short texts."""
CERTAIN = 0.98
"""Probability of a language from which on a text counts as written in it, and not in the expected one."""
OTHER_TARGET_LETTERS = 80
"""Letters of a text from which on a language that is not served counts as certain."""
LIKELY, DISTINCTIVE_WORDS = 0.9, 2
"""Least probability of a language whose distinctive words show it, and how many of them show a similar language."""
ALIKE = [frozenset(codes.split()) for codes in ("da nb nn no", "bs hr sr sl", "id ms", "cs sk", "es gl pt", "af nl")]
"""Languages that detection confuses in correct sentences."""
OTHERS_OF_GREETING = 0.03
"""Likelihood that all other languages share for a text that is a greeting, where a language of the greeting has 1."""
SHARPNESS = 2.0
"""Exponent of lingua's confidence values, which are too even: at 65% it is right in 97%."""


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A possible language of a text. `confidence` is an integer from 0 to 100. `alternatives` are set only for the best
    one, if it is unsure."""

    language: str
    confidence: int
    alternatives: tuple[DetectedLanguage, ...] = ()


def resolve_language_code(code: str, served: Collection[str]) -> str | None:
    """Returns the served code for a caller's code, or None. The code matches in any case, by an alias, or without its
    region (de-AT -> de)."""
    spelling = _spelling(code.strip())
    spellings = {_spelling(language): language for language in served}
    candidates = [spelling, *[alias for row in table("aliases") if spelling in row.split() for alias in row.split()]]
    if "-" in spelling:
        candidates.append(primary_subtag(spelling))
    elif regional := sorted(other for other in spellings if other.startswith(spelling + "-")):
        candidates.append(regional[0])
    return next((spellings[candidate] for candidate in candidates if candidate in spellings), None)


def _spelling(code: str) -> str:
    return code.replace("_", "-").lower()


class LanguageDetector:
    """Detects which of the served languages a text is in, or that it is in none of them. `load` or the first detection
    loads the statistics."""

    def __init__(self, languages: Iterable[str]) -> None:
        self.languages = tuple(sorted(set(languages)))
        self._lock = threading.Lock()
        self._detector: lingua.LanguageDetector | None = None
        self._others: OtherLanguages | None = None
        self._codes: dict[lingua.IsoCode639_1, str] = {}

    def load(self) -> None:
        """Loads the statistics, which takes about 0.2 s per language. Can be called from any thread and more than
        once."""
        with self._lock:
            if self._detector is not None or self._codes:
                return
            codes = {iso: language for language in reversed(self.languages) if (iso := iso_code(language))}
            if unknown := [language for language in self.languages if iso_code(language) is None]:
                log.warning("languages that source=auto cannot detect: %s", ", ".join(unknown))
            many = len(codes) > DETAILED_LANGUAGES
            if len(codes) > 1:
                self._detector = build_detector(codes, detailed=not many)
            if codes and not many:
                self._others = OtherLanguages(codes.values())
            self._codes = codes

    def detect(self, text: str, target: str = "", accepted: Iterable[str] = ()) -> list[DetectedLanguage]:
        """Returns the possible languages of one text; see `detect_all`."""
        return self.detect_all((text,), target, accepted)[0]

    def other_language(self, text: str, expected: str) -> str | None:
        """Returns the language that a text is certainly in although `expected`, a served code, was expected. Returns
        None for a text in this or in a similar language, and where the statistics do not include it."""
        self.load()
        iso, sample = iso_code(expected), text[:DETECTION_CHARACTERS]
        if iso is None:
            return None
        shares = posterior(self._likelihoods(sample), dict.fromkeys(self.languages, 1.0))
        best = (
            max(shares, key=lambda language: shares[language]) if expected in shares and len(shares) > 1 else expected
        )
        if shares.get(best, 0.0) < CERTAIN:
            best = expected
        known = iso in self._codes or iso.name.lower() in OTHER_LANGUAGES
        if best == expected and known and self._others:
            evident, words = evident_language(sample, expected) or ("", 0)
            if words >= DISTINCTIVE_WORDS and _alike(evident, expected):
                return evident
            if self._others.shares(sample).get(evident, 0.0) >= LIKELY:
                best = evident
            elif sum(map(str.isalpha, sample)) >= OTHER_TARGET_LETTERS:
                best = self._others.certain(sample) or expected
        return None if _alike(best, expected) else best

    def detect_all(
        self, texts: Sequence[str], target: str = "", accepted: Iterable[str] = ()
    ) -> list[list[DetectedLanguage]]:
        """Returns for each text of a request the language that it is translated from, then every served language and the
        others that it may be in, best first. All confidences are 0 for a text without letters. A language that is not
        served comes first if the text is certainly in it, or in a script of no served language.

        `target` is the served code of the target, and `accepted` are codes of Accept-Language. Texts of a request are
        usually in one language: the shares of the languages are estimated from all texts with letters (expectation
        maximization) and weigh each of them. A repeated text counts once.
        """
        self.load()
        samples = [text[:DETECTION_CHARACTERS] for text in texts]
        likelihoods = {sample: self._likelihoods(sample) for sample in dict.fromkeys(samples)}
        weights = self._weights(target, accepted)
        posteriors = {sample: posterior(each, weights) for sample, each in likelihoods.items()}
        for _ in range(ITERATIONS):
            readable = [shares for shares in posteriors.values() if any(shares.values())]
            if len(readable) < 2:
                break
            sums = {language: sum(shares[language] for shares in readable) for language in readable[0]}
            weights = {language: LEAST_SHARE + sums.get(language, 0.0) / len(readable) for language in self.languages}
            posteriors = {sample: posterior(each, weights) for sample, each in likelihoods.items()}
        guesses = {sample: self._guesses(sample, shares) for sample, shares in posteriors.items()}
        return [list(guesses[sample]) for sample in samples]

    def _weights(self, target: str, accepted: Iterable[str]) -> dict[str, float]:
        """Returns the weights of the served languages before a text is read."""
        weights = dict.fromkeys(self.languages, 1.0)
        for code in accepted:
            if (language := resolve_language_code(code, self.languages)) is not None:
                weights[language] = ACCEPTED_WEIGHT
        if target and target != "en" and "en" in weights:
            weights["en"] *= ENGLISH_WEIGHT
        if target in weights:
            weights[target] *= TARGET_WEIGHT
        return weights

    def _guesses(self, sample: str, shares: Mapping[str, float]) -> list[DetectedLanguage]:
        """Returns the languages of one text, best first."""
        readable = any(shares.values())
        others = self._others.shares(sample, readable) if self._others else {}
        served = 1 - sum(others.values())
        ranked = sorted(shares, key=lambda language: (-shares[language], language != "en", language))
        guesses = [DetectedLanguage(language, round(100 * served * shares[language])) for language in ranked]
        if others and (not readable or 1 - served >= NOT_SERVED):
            best = max(others, key=lambda language: others[language])
            first = DetectedLanguage(best, round(100 * others.pop(best)))
        else:
            first, *guesses = guesses
            if readable:  # it is translated
                first = replace(first, confidence=max(1, first.confidence))
        shown = {code: min(UNDECIDED, round(100 * share)) for code, share in others.items()}
        guesses += [DetectedLanguage(code, share) for code, share in shown.items() if share >= LEAST_ALTERNATIVE]
        guesses.sort(key=lambda guess: -guess.confidence)
        if 0 < first.confidence < UNSURE:
            likely = tuple([guess for guess in guesses if guess.confidence >= LEAST_ALTERNATIVE])
            first = replace(first, alternatives=likely)
        return [first, *guesses]

    def _likelihoods(self, sample: str) -> dict[str, float]:
        """Returns for each served language a number proportional to the probability of the text in it."""
        if self._detector is None:
            return {language: float(has_letters(sample, language)) for language in self.languages}
        if greeting := self._greeting_likelihoods(sample):
            return greeting
        guesses = self._detector.compute_language_confidence_values(sample)
        return {self._codes[guess.language.iso_code_639_1]: guess.value**SHARPNESS for guess in guesses}

    def _greeting_likelihoods(self, sample: str) -> dict[str, float]:
        """Returns the likelihoods of a text that is a greeting in a served language; empty for other texts."""
        known = greeting_languages(sample)
        served = {language for language in self._codes.values() if primary_subtag(language) in known}
        if not served:
            return {}
        rest = OTHERS_OF_GREETING / max(1, len(self._codes) - len(served))
        return {language: 1.0 if language in served else rest for language in self._codes.values()}


def posterior(likelihoods: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Returns the normalized products of likelihoods and prior weights; zeros if all likelihoods are."""
    products = {language: value * weights[language] for language, value in likelihoods.items()}
    total = sum(products.values())
    return {language: value / total if total else 0.0 for language, value in products.items()}


def _alike(one: str, other: str) -> bool:
    """Returns whether two codes are of the same language or of languages that detection confuses."""
    first, second = primary_subtag(one), primary_subtag(other)
    return first == second or any({first, second} <= group for group in ALIKE)


@lru_cache(maxsize=256)
def accepted_languages(header: str | None) -> tuple[str, ...]:
    """Returns the codes of an Accept-Language header, at most five, without their weights."""
    parts = (header or "")[:200].split(",")[:5]
    return tuple([code for part in parts if (code := part.partition(";")[0].strip()) and code != "*"])
