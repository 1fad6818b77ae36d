"""Brings the terms of a glossary into a translation.

If one term is missing, the sentence is decoded again with the translation before the aligned place
and the term as forced prefix. Where several are missing, or this damages the sentence, all terms
are masked.
"""

from __future__ import annotations

from dataclasses import replace

from server.text.glossary import (
    TermMatch,
    case_edits,
    form,
    is_damaged,
    is_start,
    lacking,
    without_article,
)
from server.text.projection import SpanProjection
from server.text.sentences import with_codes
from server.text.spans import NO_SPACES, OffsetMap, edited
from server.text.tagged import Code
from server.translation.candidates import decoded
from server.translation.context import Draft, SentenceContext
from server.translation.preparation import Segment, encoded

SPACED = ".,;:!?…)]}»”%"
"""Characters after which a space follows."""


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns a draft whose hypotheses have the terms of the segment in their case."""
    segment, leg = draft.segment, context.leg
    terms = segment.terms
    if not terms:
        return draft
    if segment.reading.capitals:  # the model reads it in sentence case
        terms = tuple([term._replace(case="written") for term in terms])
    before, decode = draft.text, leg.model.tokenizer.decode

    def is_whole(text: str) -> bool:
        return not (lacking(terms, text, leg.target) or is_damaged(terms, before, text))

    missing = lacking(terms, before, leg.target)
    prefix = await _prefix(context, draft, missing[0]) if len(missing) == 1 else ()
    if 0 < len(prefix) < leg.model.max_length - 1:
        draft = await context.decode("terms", segment, prefix=prefix)
    if not is_whole(draft.text):
        return await _masked(context, segment)
    cased = edited(draft.text, case_edits(terms, segment.text, draft.text))[0]
    draft = await _rewritten(context, draft, cased)
    best, *others = draft.answer.hypotheses
    kept = [other for other in others if is_whole(decode(other.tokens))]
    return replace(draft, answer=replace(draft.answer, hypotheses=(best, *kept)))


async def _masked(context: SentenceContext, segment: Segment) -> Draft:
    """Returns a translation with the terms as codes, so that each is there once."""
    text = segment.text
    codes = []
    for term in segment.terms:
        written = form(term, text, is_start(text, term.start))
        codes.append(Code(term.start, term.end, word="name", kind="term", equiv=written))
    masked = encoded(replace(segment, terms=()), with_codes(segment.tagged, codes), context.leg)
    return await decoded(context, "terms", masked)


async def _prefix(context: SentenceContext, draft: Draft, term: TermMatch) -> tuple[int, ...]:
    """Returns the tokens of the translation up to a term, and of the term."""
    segment = draft.segment
    reading, text = segment.reading, segment.text
    links = await context.links(reading.text, segment.ids, draft.tokens)
    projection = SpanProjection(reading.text, draft.text, links)
    codes = zip(segment.tagged.codes, reading.places, strict=False)
    places = [(code.end, place[1], len(text)) for code, place in codes]
    read = OffsetMap([(0, 0, len(text)), *places]).span((term.start, term.end))
    before = draft.text[: projection.project(read)[0]]
    before = without_article(before + " " * needs_space(before), term.entry.target)
    word = form(term, text, is_start(before, len(before)))
    return context.leg.model.tokenizer.encode_target(before + word)


async def _rewritten(context: SentenceContext, draft: Draft, text: str) -> Draft:
    """Returns the draft with another text of its best hypothesis, and its score."""
    tokens = context.leg.model.tokenizer.encode_target(text)
    if text == draft.text or len(tokens) + 1 >= context.leg.model.max_length:
        return draft
    scored = await context.decode("terms", draft.segment, target=tokens)
    hypotheses = (*scored.answer.hypotheses[:1], *draft.answer.hypotheses[1:])
    answer = replace(draft.answer, hypotheses=hypotheses, options=scored.answer.options)
    return replace(draft, answer=answer, text=scored.text)


def needs_space(before: str) -> bool:
    """Returns whether a space is between a text and the next word: not after a bracket, a hyphen,
    or a character of a script without spaces."""
    last = before[-1:]
    return (last.isalnum() or last in SPACED) and bool(before) and not NO_SPACES.match(last)
