"""Checks the translation of a sentence by its text and scores: flags and confidence. A `thorough`
request also checks its attention, in one more pass of the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from model.analysis.attention_alignment import largest_gap, reading_map, received_attention, words
from model.analysis.confidence import LOW, length_ratio
from model.analysis.types import ALIGNMENT
from model.search.repetition import has_loop
from server.engine.ipc.messages import JobResult, Look
from server.text.exact_tokens import lost_numbers
from server.text.languages import LATIN, is_evidently_in, scripts_of
from server.text.translation_checks import (
    ends_early,
    is_copied,
    may_repeat,
    ordinary_words,
    repeats,
)
from server.translation.catalog import Leg
from server.translation.context import Draft, SentenceContext
from server.translation.types import FAULTS, Flag

SHORT = -0.7
"""The log of target tokens per source token below which a target is short, if not calibrated."""
LEAST_WORDS, LEAST_LETTERS = 5, 24
"""Least words and letters, without names and quotations, of a text whose language is checked."""
LEAST_COVERED_TOKENS, MOST_CELLS = 8, 20_000
"""Least source tokens, and most source tokens times target tokens, of a sentence whose attention is
checked: shorter sentences have no large gaps, and a model may have a thousand maps."""
UNSPACED = frozenset({"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"})
"""Scripts without spaces between words, whose gaps are not measured."""
Attend = Callable[[Look], Awaitable[JobResult | None]]
"""Returns the attention of a forced pass; None if it failed."""


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with its flags and its confidence."""
    leg, segment, best = context.leg, draft.segment, draft.answer.hypotheses[0]
    source, target, limits = segment.text, draft.finished[0].text, leg.limits
    flags = set(draft.flags)
    is_short = length_ratio(len(best.token_scores), len(segment.ids)) < (
        limits.short if limits else SHORT
    )
    at_limit = best.finish_reason == "length" or len(best.token_scores) >= leg.model.max_length
    if at_limit or (is_short and ends_early(source, target, leg.target)):
        flags.add("truncated")
    if may_repeat(best.tokens) and (has_loop(best.tokens, segment.ids) or repeats(source, target)):
        flags.add("repetition")
    if language := _wrong_language(context, source, target):
        flags.add(language)
    elif _is_elsewhere(context, source, context.leg.source):
        flags.add("source_language")
    source, target = segment.tagged.bare, draft.finished[0].tagged.bare
    if not segment.messages and lost_numbers(source, target, leg.target):
        flags.add("number")
    if limits and context.request.thorough:
        gap = await attention_gap(
            leg,
            segment.read,
            segment.ids,
            best.tokens,
            partial(context.attention, segment.ids, best.tokens),
        )
        if gap is not None and gap > limits.gap:
            flags.add("omission")
    if limits:
        flagged = bool(flags & FAULTS)
        draft.confidence = limits.confidence(best.token_scores, len(draft.text), flagged)
        if draft.confidence < LOW and not flagged:
            flags.add("low_confidence")
    if flags:
        draft.flags = frozenset(flags)
    return draft


def _is_elsewhere(context: SentenceContext, text: str, language: str) -> bool:
    """Returns whether a text is certainly in another language, by its ordinary words. Short texts
    never are."""
    if len(text) < LEAST_LETTERS or is_evidently_in(text, language) or not _is_enough(text):
        return False
    text = " ".join(ordinary_words(text)) if scripts_of(language) == LATIN else text
    return _is_enough(text) and context.detector.other_language(text, language) is not None


def _is_enough(text: str) -> bool:
    return sum(map(str.isalpha, text)) >= LEAST_LETTERS and len(text.split()) >= LEAST_WORDS


def _wrong_language(context: SentenceContext, source: str, target: str) -> Flag | None:
    """Returns the flag of a target that copies its source, or is certainly in another language."""
    if is_copied(source, target):
        other = context.detector.other_language(target, context.leg.target)
        return None if other is None else "copied"
    return "wrong_language" if _is_elsewhere(context, target, context.leg.target) else None


async def attention_gap(
    leg: Leg, read: str, ids: tuple[int, ...], tokens: tuple[int, ...], attend: Attend
) -> float | None:
    """Returns the largest gap in the attention that the words of `read`, encoded as `ids`, receive
    from the translation `tokens` (`model.analysis.attention_alignment.largest_gap`); None if it
    cannot be measured."""
    if (
        len(ids) < LEAST_COVERED_TOKENS
        or scripts_of(leg.source) & UNSPACED
        or len(ids) * len(tokens) > MOST_CELLS
    ):
        return None
    look = Look(leg.model.alignment.chosen(ALIGNMENT, reading=True))
    attention = await attend(look)
    if attention is None:
        return None
    encoding = leg.encode(read)
    source = words(read, encoding.pieces, encoding.offsets)
    return largest_gap(
        received_attention(reading_map(attention.maps, leg.model.alignment), source, len(tokens))
    )
