"""Codes are spelled as in the source; numbers have the decimal and thousands separators of the target language, if the
request asks for them."""

from __future__ import annotations

from server.text.exact_tokens import respelled
from server.text.number_format import localize_numbers, writes_decimal_point
from server.translation.context import Draft, SentenceContext


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with the spelling of its source. A sentence that is copied stays as it is, but for the separators of
    one that has no words."""
    leg, source, targets = context.leg, draft.segment.text, draft.targets
    if context.request.localize_numbers and not (draft.copied and draft.flags):
        targets = tuple([localize_numbers(source, target, leg.source, leg.target) for target in targets])
    if not draft.copied:
        point = writes_decimal_point(leg.source)
        targets = tuple([respelled(source, target, point) for target in targets])
    return draft if targets == draft.targets else draft.respelled(targets)
