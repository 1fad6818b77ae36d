"""A translation that addresses its reader in the other form than the request gives way to the best one of a wider beam that
has the requested form."""

from __future__ import annotations

from dataclasses import replace

from model.symbols import form_of_address
from server.errors import InvalidRequest
from server.translation.context import Draft, SentenceContext

BEAM = 8
MARGIN = 0.5
"""A hypothesis whose score is further below that of the best is dropped: it has the form, but says something else."""


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft, or one with the form of address that the leg's symbol requests."""
    leg, options = context.leg, context.request.options
    if form_of_address(draft.text, leg.target) in (None, leg.symbol):
        return draft
    wider = leg.decoding_options(replace(options, beam_size=BEAM, hypotheses=BEAM, rerank=False))
    try:
        answer = await context.answer(leg, draft.segment.ids, wider)
    except InvalidRequest:  # the beam has more rows than the server has slots
        return draft
    lowest = answer.hypotheses[0].score - MARGIN
    for best in [each for each in answer.hypotheses if each.score >= lowest]:
        text = leg.model.tokenizer.decode(best.tokens)
        if form_of_address(text, leg.target) == leg.symbol:
            others = [each for each in draft.answer.hypotheses if each.tokens != best.tokens]
            hypotheses = (best, *others)[: options.hypotheses]
            return Draft(draft.segment, replace(answer, hypotheses=hypotheses), text)
    return draft
