"""Resolves language codes of callers and detects the language of a text."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import lingua

from server.text.unicode_scripts import has_letters

log = logging.getLogger(__name__)

# Each group holds codes that clients use for the same language, the most common code first.
ALIASES: tuple[tuple[str, ...], ...] = (
    ("pt-BR", "pb"),
    ("zh-Hans", "zh", "zh-CN", "cmn_Hans", "cmn"),
    ("zh-Hant", "zt", "zh-TW", "cmn_Hant"),
    ("he", "iw"),
    ("nb", "no"),
    ("id", "in"),
    ("yi", "ji"),
    ("fil", "tl"),
)
DETECTION_CHARACTERS = 1_000
"""Number of characters used for detection. They take about 2 ms; more characters take longer and do not improve it."""
DETAILED_LANGUAGES = 24
"""With more languages only trigrams are compared: the full statistics of 75 languages take 1.2 GB."""


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A possible language of a text. `confidence` is an integer from 0 to 100."""

    language: str
    confidence: int


def resolve_language_code(code: str, served: Collection[str]) -> str | None:
    """Returns the served code for a caller's code, or None. The code matches in any case, by an alias, or without its
    region (de-AT -> de)."""
    wanted = code.strip().replace("_", "-").lower()
    spellings = {language.replace("_", "-").lower(): language for language in served}
    candidates = [wanted]
    for group in ALIASES:
        lowered = [alias.replace("_", "-").lower() for alias in group]
        if wanted in lowered:
            candidates += lowered
    if "-" in wanted:
        candidates.append(wanted.split("-")[0])
    elif regional := sorted(spelling for spelling in spellings if spelling.startswith(wanted + "-")):
        candidates.append(regional[0])
    return next((spellings[candidate] for candidate in candidates if candidate in spellings), None)


class LanguageDetector:
    """Detects which of the served languages a text is in. `load` or the first detection loads the statistics."""

    def __init__(self, languages: Iterable[str]) -> None:
        self.languages = tuple(sorted(set(languages)))
        self._lock = threading.Lock()
        self._detector: lingua.LanguageDetector | None = None
        self._codes: dict[lingua.IsoCode639_1, str] = {}

    def load(self) -> None:
        """Loads the statistics, which takes about 0.2 s per language. Can be called from any thread and more than
        once."""
        with self._lock:
            if self._detector is not None or self._codes:
                return
            codes: dict[lingua.IsoCode639_1, str] = {}
            unknown: list[str] = []
            for language in self.languages:
                if iso := iso_code(language):
                    codes.setdefault(iso, language)
                else:
                    unknown.append(language)
            if unknown:
                log.warning("languages that source=auto cannot detect: %s", ", ".join(unknown))
            if len(codes) > 1:
                builder = lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*codes)
                if len(codes) > DETAILED_LANGUAGES:
                    builder = builder.with_low_accuracy_mode()
                self._detector = builder.with_preloaded_language_models().build()
            self._codes = codes

    def detect(self, text: str) -> list[DetectedLanguage]:
        """Returns every served language with its confidence, best first. All are 0 for a text without letters."""
        self.load()
        sample = text[:DETECTION_CHARACTERS]
        if self._detector is None:
            return [
                DetectedLanguage(language, 100 if has_letters(sample, language) else 0) for language in self.languages
            ]
        found = [
            DetectedLanguage(self._codes[guess.language.iso_code_639_1], round(100 * guess.value))
            for guess in self._detector.compute_language_confidence_values(sample)
        ]
        return sorted(found, key=lambda guess: (-guess.confidence, guess.language))


def iso_code(language: str) -> lingua.IsoCode639_1 | None:
    """Returns the code of a language in the lingua library, or None if the library does not support it."""
    short = language.replace("_", "-").split("-")[0].lower()
    macro = {"no": "nb", "cmn": "zh", "fil": "tl"}.get(short, short)
    return getattr(lingua.IsoCode639_1, macro.upper(), None)
