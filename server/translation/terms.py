"""Brings the terms of a glossary into a translation.

If the model has not written a term, the sentence is decoded again. The translation up to the
aligned place and the term are forced, so that the rest of the sentence fits the term. As a last
resort the terms are masked as protected spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from server.text.characters import NO_SPACES
from server.text.offsets import OffsetMap, edited
from server.text.projection import SpanProjection
from server.text.protection.glossary import TermMatch
from server.text.protection.terms import case_edits, doubled_edits, form, is_start, lacking
from server.text.segmentation import Span
from server.text.sentences import with_codes
from server.text.tagged import Code
from server.translation.candidates import decoded
from server.translation.catalog import Leg
from server.translation.context import Draft, SentenceContext
from server.translation.preparation import Segment, encoded

SPACED = ".,;:!?…)]}»”%"
"""Characters after which a space follows."""
FORCED = 8
"""Most translations of a segment with forced terms."""


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns a draft whose hypotheses have the terms of the segment in their case."""
    segment, leg = draft.segment, context.leg
    terms = segment.terms
    if not terms:
        return draft
    if segment.reading.capitals:  # the model reads it in sentence case
        terms = tuple([term._replace(case="written") for term in terms])
    missing = lacking(terms, draft.text, leg.target)
    failed: set[int] = set()
    for _ in range(FORCED):
        candidates = [term for term in missing if term.start not in failed]
        if not candidates:
            break
        places = await _places(context, draft, candidates)
        term = min(candidates, key=lambda candidate: places[candidate.start])
        prefix = _prefix(leg, draft, term, places[term.start][0])
        if len(prefix) + 1 >= leg.model.max_length:
            break
        other = await context.decode("terms", segment, prefix=prefix)
        if len(still := lacking(terms, other.text, leg.target)) < len(missing):
            draft, missing = other, still
        else:
            failed.add(term.start)
    if missing:
        return await _masked(context, segment, terms)
    text = edited(draft.text, doubled_edits(terms, draft.text))[0]
    draft = await _rewritten(context, draft, edited(text, case_edits(terms, segment.text, text))[0])
    best, *others = draft.answer.hypotheses
    kept = [
        other
        for other in others
        if not lacking(terms, leg.model.tokenizer.decode(other.tokens), leg.target)
    ]
    return replace(draft, answer=replace(draft.answer, hypotheses=(best, *kept)))


async def _masked(context: SentenceContext, segment: Segment, terms: Sequence[TermMatch]) -> Draft:
    """Returns a translation with the terms masked as protected spans, so that each is there once
    and at its place."""
    text = segment.text
    codes = []
    for term in terms:
        written = form(term, text, is_start(text, term.start))
        codes.append(Code(term.start, term.end, word="name", kind="term", equiv=written))
    masked = encoded(replace(segment, terms=()), with_codes(segment.tagged, codes), context.leg)
    return await decoded(context, "terms", masked)


async def _places(
    context: SentenceContext, draft: Draft, terms: Sequence[TermMatch]
) -> dict[int, Span]:
    """Returns the words of the translation that terms are aligned to, by the position of the
    term."""
    segment = draft.segment
    reading = segment.reading
    links = await context.links(reading.text, segment.ids, draft.tokens)
    projection = SpanProjection(reading.text, draft.text, links)
    size, codes = len(segment.text), zip(segment.tagged.codes, reading.places, strict=False)
    read = OffsetMap([(0, 0, size), *[(code.end, place[1], size) for code, place in codes]])
    return {term.start: projection.project(read.span((term.start, term.end))) for term in terms}


def _prefix(leg: Leg, draft: Draft, term: TermMatch, place: int) -> tuple[int, ...]:
    """Returns the tokens of the translation before a place, and of the term there."""
    before = draft.text[:place]
    word = form(term, draft.segment.text, is_start(before, place))
    return leg.model.tokenizer.encode_target(before + " " * needs_space(before) + word)


async def _rewritten(context: SentenceContext, draft: Draft, text: str) -> Draft:
    """Returns the draft with another text of its best hypothesis, which the model scores."""
    tokens = context.leg.model.tokenizer.encode_target(text)
    if text == draft.text or len(tokens) + 1 >= context.leg.model.max_length:
        return draft
    scored = await context.decode("terms", draft.segment, target=tokens)
    hypotheses = (*scored.answer.hypotheses[:1], *draft.answer.hypotheses[1:])
    answer = replace(draft.answer, hypotheses=hypotheses, options=scored.answer.options)
    return replace(draft, answer=answer, text=scored.text)


def needs_space(before: str) -> bool:
    """Returns whether a space is between a text and a word that follows it. None is after a
    bracket, a hyphen, or a character of a script without spaces."""
    last = before[-1:]
    return (last.isalnum() or last in SPACED) and bool(before) and not NO_SPACES.match(last)
