"""Short texts are read a second time with a small first letter.

Models are trained on sentences, where most words begin with a small letter. Alone and with a capital, as in the menus of
programs, they are rare: a model may copy `Next` and translate `next`. The reading that the model is surer of is kept.
"""

from __future__ import annotations

import re
from dataclasses import replace

from server.translation.catalog import Leg
from server.translation.context import Draft, SentenceContext
from server.translation.passes import reranking
from server.translation.preparation import Segment

WORDS, SENTENCE_WORDS = 5, 3
"""The longest text that is read again, and the longest that ends as a sentence. Longer ones gain nothing."""
UNSURE = -0.3
"""A translation with a higher score is kept without a second reading."""
GAIN, GAIN_OVER_COPY = 0.2, 0.1
"""By how much the second reading's score must be higher, and by how much if the first translation copies the text."""
_ENGLISH_I = re.compile(r"I\b")


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the translation of the reading that the model is surer of."""
    segment = draft.segment
    if not may_begin_small(segment):
        return draft
    options = context.options
    score = draft.score(options)
    if score >= UNSURE:
        return draft
    other = await context.decode(with_small_first_letter(segment, context.leg))
    other = await reranking.apply(context, other)
    gain = GAIN_OVER_COPY if draft.text.casefold() == segment.read.casefold() else GAIN
    return other if other.score(options) > score + gain else draft


def may_begin_small(segment: Segment) -> bool:
    """Returns whether a segment is short and only its first letter is a capital that may be small."""
    read = segment.read
    longest = SENTENCE_WORDS if read.endswith((".", "!", "?")) else WORDS
    if segment.messages or segment.terms or not read[:1].isupper() or len(read.split()) > longest:
        return False
    small = read[0].lower() + read[1:]
    return small == read.lower() and 1 < len(read) == len(small) and not _ENGLISH_I.match(read)


def with_small_first_letter(segment: Segment, leg: Leg) -> Segment:
    """Returns a segment that may begin small, with a small first letter in what the model reads."""
    small = segment.read[0].lower() + segment.read[1:]
    return replace(segment, ids=leg.encode_ids(small), reading=replace(segment.reading, text=small), small_first=True)
