"""Reranking: chooses among the hypotheses of a beam search with the reverse direction (noisy channel).

A hypothesis that leaves out or invents something may be probable, but makes its source improbable. So the model also
scores the source as a translation of each hypothesis (Yee, Dauphin and Auli 2019, "Simple and Effective Noisy Channel
Modeling for Neural Machine Translation").
"""

from __future__ import annotations

from dataclasses import replace

from model.search.options import DecodingOptions
from server.translation.catalog import Leg
from server.translation.context import Draft, SentenceContext, gather_or_cancel
from server.translation.types import TranslationRequest

WEIGHT = 0.3
"""The factor of the reverse score. Both scores are normalised by length."""
MARGIN, MOST = 0.6, 4
"""Only the first MOST hypotheses are compared, unless more are wanted, and of these, for one translation, those at most
MARGIN below the best. Others hardly ever win."""


def rows(request: TranslationRequest, options: DecodingOptions) -> int:
    """The rows that score the hypotheses. A beam of 1 is not reranked."""
    return max(MOST, request.options.hypotheses) if options.rerank and options.beam_size > 1 else 0


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with as many hypotheses as the request wants, best first. If there are several to choose from,
    their `score` is that of both directions, and the timings count the slowest of their scores. Passes apply it to their
    decodings too, unless a part of the translation is given."""
    if draft.copied or not context.options.rerank:
        return draft
    wanted, hypotheses = context.request.options.hypotheses, draft.answer.hypotheses
    hypotheses = hypotheses[: max(MOST, wanted)]
    if wanted == 1:
        hypotheses = tuple([each for each in hypotheses if each.score >= hypotheses[0].score - MARGIN])
    draft = replace(draft, answer=replace(draft.answer, hypotheses=hypotheses))
    if len(hypotheses) > 1 and (reverse := context.leg.reverse) is not None:
        draft = await _reranked(context, reverse, draft)
    answer = replace(draft.answer, hypotheses=draft.answer.hypotheses[:wanted])
    return Draft(draft.segment, answer, context.leg.model.tokenizer.decode(answer.hypotheses[0].tokens))


async def _reranked(context: SentenceContext, reverse: Leg, draft: Draft) -> Draft:
    """Returns the hypotheses in the order of both directions, or as they are if one is too long to be read."""
    hypotheses, read = draft.answer.hypotheses, draft.segment.read
    model, options = reverse.model, context.request.options
    source = model.tokenizer.encode_target(read)
    texts = [model.tokenizer.decode(each.tokens) for each in hypotheses]
    written = [reverse.encode_ids(text) for text in texts]
    if max(len(source) + 1, *map(len, written)) > model.max_length:
        return draft
    scored = reverse.decoding_options(
        DecodingOptions(
            target=source,
            length_penalty=options.length_penalty,
            normalization=options.normalization,
            masked_heads=options.masked_heads,
        )
    )
    answers = await gather_or_cancel([context.answer(reverse, ids, scored) for ids in written])
    both = [
        replace(each, score=each.score + WEIGHT * answer.hypotheses[0].score)
        for each, answer in zip(hypotheses, answers, strict=True)
    ]
    # A copy predicts its text best, so a copy is first only if the search has put it there.
    copies = [place > 0 and text.casefold() == read.casefold() for place, text in enumerate(texts)]
    order = sorted(range(len(both)), key=lambda i: (copies[i], -both[i].score))
    context.metrics.reranked.labels("other" if order[0] else "search").inc()
    first = draft.answer.timings
    slowest = max([answer.timings for answer in answers], key=lambda each: each.queue + each.encode + each.decode)
    timings = replace(
        first,
        queue=first.queue + slowest.queue,
        encode=first.encode + slowest.encode,
        decode=first.decode + slowest.decode,
    )
    return replace(draft, answer=replace(draft.answer, hypotheses=tuple([both[i] for i in order]), timings=timings))
