"""Checks the translation of a sentence: flags that say what may be wrong with it, and its confidence.

Every sentence is checked by its text and its scores. In a `thorough` request its attention is checked too, in one more
pass of the model over the sentence.
"""

from __future__ import annotations

from dataclasses import replace

from model.analysis.attention_alignment import largest_gap, reading_map, received_attention, words
from model.analysis.confidence import length_ratio
from model.search.options import DecodingOptions
from model.search.repetition import has_loop
from server.engine.client.engine_client import EngineClient
from server.text.frequent_words import is_evidently_in
from server.text.languages import LATIN, scripts_of
from server.text.protection.losses import lost_numbers
from server.text.translation_checks import ends_early, is_copied, may_repeat, ordinary_words, repeats
from server.translation.alignment import sentence_attention
from server.translation.catalog import Leg
from server.translation.context import Draft, SentenceContext
from server.translation.preparation import Segment
from server.translation.types import FAULTS, Flag, TranslationRequest

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


def rows(request: TranslationRequest, _: DecodingOptions) -> int:
    """The row of the attention."""
    return int(request.thorough)


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with its flags, and in a thorough request its confidence."""
    leg, segment, best = context.leg, draft.segment, draft.answer.hypotheses[0]
    source, target, limits = segment.text, draft.targets[0], leg.limits
    flags = set(draft.flags)
    is_short = length_ratio(len(best.token_scores), len(segment.ids)) < (limits.short if limits else SHORT)
    at_limit = best.finish_reason == "length" or len(best.token_scores) >= leg.model.max_length
    if at_limit or (is_short and ends_early(source, target, leg.target)):
        flags.add("truncated")
    if may_repeat(best.tokens) and (has_loop(best.tokens, segment.ids) or repeats(source, target)):
        flags.add("repetition")
    if language := _wrong_language(context, source, target):
        flags.add(language)
    if not segment.messages and lost_numbers(*[_without_spans(context.segment, text) for text in (source, target)]):
        flags.add("number")
    if not (limits and context.request.thorough):
        return replace(draft, flags=frozenset(flags)) if len(flags) > len(draft.flags) else draft
    gap = await attention_gap(context.engine, leg, segment.read, segment.ids, best.tokens)
    if gap is not None and gap > limits.gap:
        flags.add("omission")
    confidence = limits.confidence(best.token_scores, len(segment.ids), bool(flags & FAULTS))
    return replace(draft, flags=frozenset(flags), confidence=confidence)


def _without_spans(segment: Segment, text: str) -> str:
    """Returns the text of a segment, or its translation, without the protected spans."""
    for span in segment.spans:
        text = text.replace(span.written or segment.text[span.start : span.end], " ")
    return text


def _wrong_language(context: SentenceContext, source: str, target: str) -> Flag | None:
    """Returns the flag of a target that is its source, or that is certainly in another language than the leg's."""
    language = context.leg.target
    latin = scripts_of(language) == LATIN
    copied = is_copied(source, target)
    if not copied:
        if len(target) < LEAST_LETTERS or is_evidently_in(target, language):
            return None
        target = " ".join(ordinary_words(target)) if latin else target
        if sum(map(str.isalpha, target)) < LEAST_LETTERS or len(target.split()) < LEAST_WORDS:
            return None
    if context.detector.other_language(target, language) is None:
        return None
    return "copied" if copied else "wrong_language"


async def attention_gap(
    engine: EngineClient, leg: Leg, read: str, ids: tuple[int, ...], tokens: tuple[int, ...]
) -> float | None:
    """Returns the largest gap in the attention that the words of the text `read`, which the model read as `ids`, received
    from the translation (`model.analysis.attention_alignment`). Returns None if it cannot be measured."""
    if len(ids) < LEAST_COVERED_TOKENS or scripts_of(leg.source) & UNSPACED or len(ids) * len(tokens) > MOST_CELLS:
        return None
    attention = await sentence_attention(engine, leg, ids, tokens)
    if attention is None:
        return None
    encoding = leg.encode(read)
    source = words(read, encoding.pieces, encoding.offsets)
    return largest_gap(received_attention(reading_map(attention.maps, leg.model.alignment), source, len(tokens)))
