"""A sentence that is probably wrong is translated a second time with a wider beam, or replaced by its source."""

from __future__ import annotations

from dataclasses import replace

from model.search.options import DecodingOptions
from server.errors import InvalidRequest
from server.text.finishing import unchanged
from server.translation.catalog import wider_beam
from server.translation.context import Draft, SentenceContext
from server.translation.passes import reranking
from server.translation.types import FAULTS, TranslationRequest

_NGRAM = 3


def rows(request: TranslationRequest, options: DecodingOptions) -> int:
    """The rows of the wider beam and of its reranking."""
    if request.on_flag != "retry":
        return 0
    wider = retry_options(options)
    return wider.beam_size + reranking.rows(request, wider)


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft as it is if it has none of the FAULTS. Otherwise it is only marked, translated again or replaced by
    its source, as the request says."""
    for flag in draft.flags:
        context.metrics.flagged.labels(flag).inc()
    request, segment = context.request, draft.segment
    if request.on_flag == "mark" or not draft.flags & FAULTS:
        return draft
    if request.on_flag == "source":
        answer = replace(draft.answer, hypotheses=())
        return Draft(
            replace(segment, ids=()),
            answer,
            finished=(unchanged(segment.tagged),),
            flags=draft.flags,
            confidence=draft.confidence,
        )
    if draft.copied:
        return draft
    options = replace(retry_options(context.options), hypotheses=request.options.hypotheses)
    passes = tuple([step for step in context.passes if step.apply is not apply])
    wider = replace(
        context,
        request=replace(request, options=options),
        options=context.leg.decoding_options(options),
        passes=passes,
        on_progress=None,
    )
    try:
        other = await wider.translate()
    except InvalidRequest:  # the beam has more rows than the server has slots
        return draft
    replaced = is_better(other, draft, options)
    context.metrics.retried.labels("retry" if replaced else "first").inc()
    return other if replaced else draft


def retry_options(options: DecodingOptions) -> DecodingOptions:
    """Returns the options of a retry: a wider beam, and no sequence of three tokens twice."""
    ngram = options.no_repeat_ngram_size or _NGRAM
    return replace(options, beam_size=wider_beam(options.beam_size), no_repeat_ngram_size=ngram)


def is_better(other: Draft, first: Draft, options: DecodingOptions) -> bool:
    """Returns whether a retry has fewer FAULTS than the first translation, or as many and a higher score of the
    search."""
    faults = len(other.flags & FAULTS), len(first.flags & FAULTS)
    if faults[0] != faults[1] or other.copied or first.copied:
        return faults[0] < faults[1]
    return other.score(options) > first.score(options)
