"""Numbers get the decimal and thousands separators of the target language, if the request asks for them."""

from __future__ import annotations

from dataclasses import replace

from server.text.number_format import localize_numbers
from server.translation.context import Draft, SentenceContext


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with local numbers. A sentence that is copied because it has no translation stays as it is."""
    if draft.copied and draft.flags:
        return draft
    leg, source = context.leg, draft.segment.text
    targets = [localize_numbers(source, target, leg.source, leg.target) for target in draft.targets]
    return replace(draft, targets=tuple(targets))
