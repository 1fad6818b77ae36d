"""Checks the translation of a sentence: flags that say what may be wrong with it, and its confidence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from model.analysis.attention_alignment import alignment_map, largest_gap, received_attention, words
from model.analysis.confidence import DirectionLimits, length_ratio
from model.search.options import Hypothesis
from model.search.repetition import longest_loop
from server.engine.client.engine_client import EngineClient
from server.errors import AttentiveError
from server.text.frequent_words import is_evidently_in
from server.text.language_id import LanguageDetector
from server.text.languages import LATIN, scripts_of
from server.text.translation_checks import (
    ends_early,
    has_ordinary_words,
    is_copied,
    may_be_copied,
    may_repeat,
    ordinary_words,
    repeats,
)
from server.translation.catalog import Leg
from server.translation.types import FAULTS, Flag, Sentence

log = logging.getLogger(__name__)

SHORT = -0.7
"""Logarithm of target tokens per source token below which a target is short, for models without a calibration."""
LEAST_WORDS, LEAST_LETTERS = 5, 24
"""Words and letters, without names and quotations, of which the language of a translation is checked."""
LEAST_COVERED_TOKENS = 8
"""Source tokens of a sentence whose attention is checked. Shorter sentences have no gap that is large enough."""
MOST_CELLS = 20_000
"""Source tokens times target tokens of a sentence whose attention is checked: a model may have a thousand such maps."""
UNSPACED = frozenset({"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"})
"""Scripts without spaces between words. The words of a source in them are not known, so its gaps are not measured."""


class CheckObserver(Protocol):
    """Receives each flag of a first translation, and whether a retry replaced it."""

    def flagged(self, flag: Flag) -> None: ...
    def retried(self, replaced: bool) -> None: ...


class SentenceChecker:
    """Flags sentences and gives them their confidence. `detector` returns the current detector.

    Every sentence is checked by its text and its scores. With `thorough` its attention is checked too, in one more pass
    over the sentence.
    """

    def __init__(self, engine: EngineClient, detector: Callable[[], LanguageDetector]) -> None:
        self._engine = engine
        self._detector = detector

    async def checked(self, sentence: Sentence, leg: Leg, *, thorough: bool = False) -> Sentence:
        """Returns the sentence with its flags, and with `thorough` its confidence. A sentence that no model read is not
        checked."""
        if sentence.copied:
            return sentence
        best = sentence.hypotheses[0]
        limits = leg.limits
        is_short = length_ratio(len(best.token_scores), len(sentence.ids)) < (limits.short if limits else SHORT)
        flags = set(sentence.flags)
        if _is_truncated(sentence, best, leg, is_short):
            flags.add("truncated")
        if may_repeat(best.tokens) and _repeats(sentence, best):
            flags.add("repetition")
        if language := self._wrong_language(sentence, leg):
            flags.add(language)
        if limits and thorough and await self._has_gap(sentence, leg, limits):
            flags.add("omission")
        if limits and thorough:
            confidence = limits.confidence(best.token_scores, len(sentence.ids), bool(flags & FAULTS))
            return replace(sentence, flags=frozenset(flags), confidence=confidence)
        return replace(sentence, flags=frozenset(flags)) if len(flags) > len(sentence.flags) else sentence

    def _wrong_language(self, sentence: Sentence, leg: Leg) -> Flag | None:
        """Returns the flag of a target that is its source, or that is certainly in another language than the leg's."""
        source, target = sentence.source, sentence.targets[0]
        copied = may_be_copied(source, target) and is_copied(source, target)
        if not copied and (len(target) < LEAST_LETTERS or is_evidently_in(target, leg.target)):
            return None
        if not copied and scripts_of(leg.target) == LATIN and not has_ordinary_words(target, LEAST_WORDS):
            return None
        plain = target if copied else " ".join(ordinary_words(target)) if scripts_of(leg.target) == LATIN else target
        if not copied and (sum(map(str.isalpha, plain)) < LEAST_LETTERS or len(plain.split()) < LEAST_WORDS):
            return None
        language = self._detector().other_language(plain, leg.target)
        if language is None:
            return None
        return "copied" if copied else "wrong_language"

    async def _has_gap(self, sentence: Sentence, leg: Leg, limits: DirectionLimits) -> bool:
        gap = await self.gap(sentence, leg)
        return gap is not None and gap > limits.gap

    async def gap(self, sentence: Sentence, leg: Leg) -> float | None:
        """Returns the largest gap in the attention that the source words received from the best target
        (`model.analysis.attention_alignment`). Returns None if it cannot be measured."""
        if len(sentence.ids) < LEAST_COVERED_TOKENS or scripts_of(leg.source) & UNSPACED:
            return None
        tokens = sentence.hypotheses[0].tokens
        if len(sentence.ids) * len(tokens) > MOST_CELLS:
            return None
        try:
            result = await self._engine.align(leg.model, sentence.ids, tokens, None, leg.first_token)
        except AttentiveError as error:
            log.warning("a sentence is not checked for omissions because its attention failed: %s", error.message)
            return None
        read = sentence.read or sentence.source
        encoding = leg.encode(read)
        maps = result.maps.cross  # (L, H, T, S)
        soft = alignment_map(maps, leg.model.alignment)  # (T, S)
        source = words(read, encoding.pieces, encoding.offsets)
        return largest_gap(received_attention(soft, source, len(tokens)))


def _is_truncated(sentence: Sentence, best: Hypothesis, leg: Leg, is_short: bool) -> bool:
    if best.finish_reason == "length" or len(best.token_scores) >= leg.model.max_length:
        return True
    return is_short and ends_early(sentence.source, sentence.targets[0], leg.target)


def _repeats(sentence: Sentence, best: Hypothesis) -> bool:
    loop = longest_loop(best.tokens)
    return (loop > 0 and loop > 2 * longest_loop(sentence.ids)) or repeats(sentence.source, sentence.targets[0])
