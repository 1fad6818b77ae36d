"""Translates a segment. The forms in which it may be decoded are declared with their most rows, one
candidate is chosen, finished and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from model.search.options import DecodingOptions
from server.access.admission import RowShares
from server.errors import InvalidRequest
from server.text.finishing import unchanged
from server.text.tagged import MASKED
from server.translation import candidates, checks, finish, terms
from server.translation.catalog import wider_beam
from server.translation.context import Draft, Form, SentenceContext
from server.translation.types import FAULTS, TranslationRequest

_NGRAM = 3


def declared(
    request: TranslationRequest, options: DecodingOptions, best: DecodingOptions
) -> Mapping[Form, int]:
    """Returns the most rows of each form in which a sentence may be decoded, by the beams for all
    hypotheses (`options`) and for the best one. A forced pass takes one row."""
    terms, address = request.glossary is not None, bool(request.formality)
    further = request.on_flag == "retry", request.thorough
    return _declared(options, best, request.options.hypotheses, terms, address, *further)


@lru_cache(256)
def _declared(
    options: DecodingOptions,
    best: DecodingOptions,
    hypotheses: int,
    terms: bool,
    address: bool,
    retry: bool,
    thorough: bool,
) -> Mapping[Form, int]:
    beam = best.beam_size
    reverse = max(candidates.MOST, hypotheses) if best.rerank and beam > 1 else 0
    alone = options.beam_size if options.hypotheses > best.hypotheses else 0
    whole = beam + alone + reverse
    forms: dict[Form, int] = {
        "beam": beam, "list": alone, "reverse": reverse, "small": whole, "masked": (4 if terms else 2) * whole,
        "bare": whole, "parts": 2, "links": 1, "attention": int(thorough),
    }  # fmt: skip
    if address:
        forms["address"] = candidates.ADDRESS_BEAM
    if terms:  # also in the bare form
        forms["terms"] = 3 * (2 * whole + 1)
        forms["links"] += 3
    if retry:
        wider = _declared(
            retry_options(options), retry_options(best), hypotheses, terms, address, False, False
        )
        forms["wider"] = sum(wider.values()) + thorough
    return forms


def rows(request: TranslationRequest, options: DecodingOptions) -> int:
    """Returns the rows of a sentence that the fields of a request choose: for the beam, reranking,
    a retry and the check of attention."""
    beams = [options.beam_size]
    if request.on_flag == "retry":
        beams.append(retry_options(options).beam_size)
    reverse = max(candidates.MOST, request.options.hypotheses) if options.rerank else 0
    return sum([beam + reverse * (beam > 1) for beam in beams]) + request.thorough


async def translate_sentence(shares: RowShares, context: SentenceContext) -> Draft:
    """Returns the translation of a segment, and notes its rows in `shares`. If it is probably wrong
    it is marked, translated again or replaced by its source (`TranslationRequest.on_flag`)."""
    draft = await _chosen(context)
    for flag in draft.flags:
        context.metrics.flagged.add(flag)
    if draft.flags & FAULTS and context.request.on_flag == "source":
        segment = draft.segment
        answer, copy = replace(draft.answer, hypotheses=()), (unchanged(segment.tagged),)
        draft = Draft(replace(segment, ids=()), answer, "", copy, draft.flags, draft.confidence)
    elif draft.flags & FAULTS and context.request.on_flag == "retry" and not draft.copied:
        draft = await _retried(context, draft)
    shares.note(context.declared, context.spent)
    return draft


async def _chosen(context: SentenceContext) -> Draft:
    """Returns the chosen candidate, finished and checked."""
    draft = await candidates.decoded(context, "beam", context.segment)
    if not draft.copied:
        draft = await candidates.small(context, draft)
        draft = await candidates.address(context, draft) if context.leg.symbol else draft
        draft = await candidates.masked(context, draft)
        if draft.segment.terms and not draft.copied:
            draft = await _with_terms(context, draft)
    draft = await finish.apply(context, draft)
    return draft if draft.copied else await checks.apply(context, draft)


async def _with_terms(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with the terms of the glossary and the exact tokens of its source."""
    done = await terms.apply(context, draft)
    again = done if done is draft or done.copied else await candidates.masked(context, done)
    return done if again is done or again.copied else await terms.apply(context, again)


async def _retried(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft, or one of a wider beam with fewer faults, or with equal faults and a
    higher score. Masked tokens stay masked."""
    listed, searched = context.request.options.hypotheses, retry_options(context.best)
    options = replace(searched, beam_size=max(searched.beam_size, listed), hypotheses=listed)
    request = replace(
        context.request, options=options, best_beam=searched.beam_size, on_flag="mark"
    )
    decoding, best = [context.leg.decoding_options(each) for each in (options, request.best)]
    is_masked = draft.segment.reading.stand_ins and any(
        code.kind == MASKED for code in draft.segment.tagged.codes
    )
    wider = replace(
        context, segment=draft.segment if is_masked else context.segment, request=request, options=decoding, best=best,
        translate=_chosen, declared=declared(request, decoding, best), on_progress=None, spent={},
    )  # fmt: skip
    try:
        other = await _chosen(wider)
    except InvalidRequest:  # the beam has more rows than the server has slots
        return draft
    finally:
        context.spend("wider", sum(wider.spent.values()))
    before, after = [
        candidates.Candidate(each, len(each.flags & FAULTS)) for each in (draft, other)
    ]
    chosen = candidates.better(before, after, options)
    context.metrics.retried.add("retry" if chosen is after else "first")
    return chosen.draft


def retry_options(options: DecodingOptions) -> DecodingOptions:
    """Returns the options of a retry: a wider beam, and no sequence of three tokens twice."""
    ngram = options.no_repeat_ngram_size or _NGRAM
    return replace(options, beam_size=wider_beam(options.beam_size), no_repeat_ngram_size=ngram)
