"""Brings the terms of a glossary into a translation.

If the model has not written a term, the sentence is decoded again. The translation up to the aligned place and the term
are forced, so that the rest of the sentence fits the term. As a last resort the aligned words are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from server.text.markup.projection import SpanProjection
from server.text.offsets import OffsetMap
from server.text.protection.glossary import NO_SPACES, TermMatch
from server.text.protection.terms import (
    Edit,
    case_edits,
    doubled_edits,
    form,
    in_other_order,
    is_start,
    lacking,
    swapped_edits,
)
from server.text.segmentation import Span
from server.translation.alignment import sentence_links
from server.translation.catalog import Leg
from server.translation.context import Draft, SentenceContext

SPACE = "\u2581"
"""The piece of a space alone."""
SPACED = ".,;:!?…)]}»”%"
"""Characters after which a space follows."""
_FORCED = 8
"""Most translations of a segment with forced terms."""
_REPLACED = 2
"""How often words are replaced by terms that are still missing."""


async def apply(context: SentenceContext, draft: Draft, forced: int = _FORCED) -> Draft:
    """Returns a draft whose best hypothesis has the terms of the segment in their case, without alternatives that lack
    one. At most `forced` further translations are made."""
    segment, leg = draft.segment, context.leg
    terms = segment.terms
    if not terms:
        return draft
    if segment.masked.capitals:  # the model reads it in sentence case
        terms = tuple([replace(term, case="written") for term in terms])
    missing = lacking(terms, draft.text, leg.target)
    first, at_first = draft, missing
    failed: set[int] = set()
    for _ in range(forced):
        candidates = [term for term in missing if term.start not in failed]
        if not candidates:
            break
        places = await _places(context, draft, candidates)
        term = min(candidates, key=lambda candidate: places[candidate.start])
        prefix = _prefix(leg, draft, term, places[term.start][0])
        if len(prefix) + 1 >= leg.model.max_length:
            break
        other = await context.decode(segment, prefix=prefix)
        if len(still := lacking(terms, other.text, leg.target)) < len(missing):
            draft, missing = other, still
        else:
            failed.add(term.start)
    for _ in range(_REPLACED):
        if missing:
            edits = _replacements(draft, await _places(context, draft, missing), missing)
            draft = await _with_edits(context, draft, edits)
            missing = lacking(terms, draft.text, leg.target)  # a term may have been counted as a part of another
    if (
        missing
    ):  # a term that is a word of the source may be aligned to that word, so all are put where they were missing
        edits = _replacements(first, await _places(context, first, at_first), at_first)
        other = await _with_edits(context, first, edits)
        draft = other if len(lacking(terms, other.text, leg.target)) < len(missing) else draft
    if len(terms) > 1 and in_other_order(terms, draft.text):
        places = await _places(context, draft, terms)
        draft = await _with_edits(context, draft, swapped_edits(terms, segment.text, draft.text, places))
    draft = await _with_edits(context, draft, doubled_edits(terms, draft.text))
    draft = await _with_edits(context, draft, case_edits(terms, segment.text, draft.text))
    best, *others = draft.answer.hypotheses
    kept = [other for other in others if not lacking(terms, leg.model.tokenizer.decode(other.tokens), leg.target)]
    return replace(draft, answer=replace(draft.answer, hypotheses=(best, *kept)))


async def _places(context: SentenceContext, draft: Draft, terms: Sequence[TermMatch]) -> dict[int, Span]:
    """Returns the words of the translation that terms are aligned to, by the position of the term."""
    segment = draft.segment
    masked = segment.masked
    links = await sentence_links(context.engine, context.leg, masked.read, segment.ids, draft.tokens)
    projection = SpanProjection(masked.read, draft.text, links)
    read = OffsetMap(masked.runs or ((0, 0, len(segment.text)),))
    return {term.start: projection.project(read.span((term.start, term.end))) for term in terms}


def _prefix(leg: Leg, draft: Draft, term: TermMatch, place: int) -> tuple[int, ...]:
    """Returns the tokens before a place of the translation, and those of the term."""
    decoding = leg.model.tokenizer.decode_pieces(draft.tokens)
    before = [token for token, (_, end) in zip(draft.tokens, decoding.offsets, strict=True) if end <= place]
    before = _without_last_space(before, leg)
    word = form(term, draft.segment.text, is_start(decoding.text, place))
    return (*before, *_tokens_of(word, leg, is_joined(decoding.text, place)))


def _replacements(draft: Draft, places: dict[int, Span], terms: Sequence[TermMatch]) -> list[Edit]:
    """Returns the edits that put the terms in place of the words that they are aligned to."""
    text = draft.text
    edits: list[Edit] = []
    for term in sorted(terms, key=lambda term: places[term.start]):
        start, end = places[term.start]
        while edits and start < end and (start < edits[-1][1] or text[start].isspace()):
            start += 1
        edits.append((start, max(start, end), form(term, draft.segment.text, is_start(text, start))))
    return edits


async def _with_edits(context: SentenceContext, draft: Draft, edits: Sequence[Edit]) -> Draft:
    """Returns the draft with edits of its best hypothesis, which the model scores."""
    if not edits:
        return draft
    tokens = _edited(draft.tokens, context.leg, edits)
    if len(tokens) + 1 >= context.leg.model.max_length:
        return draft
    scored = await context.decode(draft.segment, target=tokens)
    hypotheses = (*scored.answer.hypotheses[:1], *draft.answer.hypotheses[1:])
    return replace(draft, answer=replace(draft.answer, hypotheses=hypotheses), text=scored.text)


def _edited(tokens: Sequence[int], leg: Leg, edits: Sequence[Edit]) -> tuple[int, ...]:
    """Returns the tokens of a translation after edits of its text, which are in order and do not overlap."""
    decoding = leg.model.tokenizer.decode_pieces(tokens)
    text, spans = decoding.text, decoding.offsets
    result: list[int] = []
    done = 0
    for start, end, word in edits:
        while done < len(tokens) and spans[done][1] <= start and spans[done][0] < max(start, 1):
            result.append(tokens[done])
            done += 1
        first = last = done
        while last < len(tokens) and spans[last][0] < end:
            last += 1
        low = min(start, spans[first][0]) if last > first else start
        high = max(end, spans[last - 1][1]) if last > first else end
        result = _without_last_space(result, leg)
        result += _tokens_of(text[low:start] + word + text[end:high], leg, is_joined(text, low))
        done = last
    return (*result, *tokens[done:])


def is_joined(text: str, place: int) -> bool:
    """Returns whether a word at a place of a text follows the character before it without a space: a bracket, a hyphen,
    or a character of a script without spaces."""
    before = text[place - 1 : place]
    if not before or before.isspace():
        return False
    return not (before.isalnum() or before in SPACED) or NO_SPACES.match(before) is not None


def _without_last_space(tokens: list[int], leg: Leg) -> list[int]:
    """Returns the tokens without spaces at the end, which belong to the word after them."""
    while tokens and leg.model.tokenizer.piece(tokens[-1]) == SPACE:
        tokens = tokens[:-1]
    return tokens


def _tokens_of(word: str, leg: Leg, joined: bool) -> tuple[int, ...]:
    """Returns the tokens of a word, which is `joined` to the character before it, or stands after a space."""
    encode = leg.model.tokenizer.encode_target
    return encode(f"({word}")[len(encode("(")) :] if joined else encode(word)
