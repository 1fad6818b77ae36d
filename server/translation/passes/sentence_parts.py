"""The parts of a sentence that is too long for the model are written as parts of one sentence.

A model begins every text with a capital letter, and may drop the comma at the end of one. Which words have a capital
letter within a sentence (nouns of German, names) the model says too: of the two spellings after a comma, the likelier one is
kept.
"""

from __future__ import annotations

import math
from dataclasses import replace

from server.text.protection.terms import case_edits
from server.translation.context import Draft, SentenceContext, gather_or_cancel

_BEFORE = ", "
"""Stands for the words before a part."""
_MARKS = ",;:"


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft with the first letter and the last mark that the translations have within their sentence."""
    segment = draft.segment
    targets = draft.targets
    if segment.continues and await _begins_small(context, draft):
        start = draft.text[:1]
        targets = tuple([text[:1].lower() + text[1:] if text[:1] == start else text for text in targets])
    if segment.unfinished:
        targets = tuple([with_mark(text, segment.text) for text in targets])
    return draft.respelled(targets)


def with_mark(text: str, source: str) -> str:
    """Returns the translation of a part that its sentence goes on after, with the mark at the end of its source."""
    mark = source[-1:] if source[-1:] in _MARKS else ""
    bare = text.rstrip(".") if not source.endswith(".") and not text.endswith("..") else text
    return bare + mark if bare[-1:].isalnum() else text


async def _begins_small(context: SentenceContext, draft: Draft) -> bool:
    """Returns whether the best translation begins with a capital letter that it would not have within a sentence."""
    segment, leg, text = draft.segment, context.leg, draft.text
    small = text[:1].lower() + text[1:]
    if small == text or len(small) != len(text) or draft.targets[0][:1] != text[:1]:
        return False
    if (
        segment.reading.capitals
        or segment.reading.pattern().match(text)
        or case_edits(segment.terms, segment.text, small)
    ):
        return False
    encode = leg.model.tokenizer.encode_target
    within = replace(segment, ids=leg.encode_ids(_BEFORE + segment.read))
    tokens = [tuple(encode(_BEFORE + spelling)) for spelling in (text, small)]
    if max(len(within.ids), *[len(each) + 1 for each in tokens]) > leg.model.max_length:
        return False
    scored = await gather_or_cancel([context.decode(within, target=each) for each in tokens])
    capital, other = [math.fsum(each.answer.hypotheses[0].token_scores) for each in scored]
    return other > capital
