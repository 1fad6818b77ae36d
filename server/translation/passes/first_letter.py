"""Short texts are read a second time with a small first letter.

Models are trained on sentences, where most words begin with a small letter. Alone and with a capital, as in the menus of
programs, they are rare: a model may copy `Next` and translate `next`. The reading that the model is surer of is kept.
"""

from __future__ import annotations

import re
from dataclasses import replace

from model.search.options import DecodingOptions, Hypothesis
from server.text.markup.projection import SYMBOL
from server.translation.catalog import Leg
from server.translation.retry import search_score
from server.translation.segments import Segment

WORDS, SENTENCE_WORDS = 5, 3
"""The longest text that is read again, and the longest that ends as a sentence. Longer ones gain nothing."""
UNSURE = -0.3
"""A translation with a higher score is kept without a second reading."""
GAIN, GAIN_OVER_COPY = 0.2, 0.1
"""By how much the second reading's score must be higher, and by how much if the first translation copies the text."""
_ENGLISH_I = re.compile(r"I\b")


def may_begin_small(segment: Segment) -> bool:
    """Returns whether a segment is short and only its first letter is a capital that may be small."""
    read = segment.read
    longest = SENTENCE_WORDS if read.endswith((".", "!", "?")) else WORDS
    if segment.messages or segment.terms or not read[:1].isupper() or len(read.split()) > longest:
        return False
    small = _with_small_first_letter(read)
    return small == read.lower() and 1 < len(read) == len(small) and not _ENGLISH_I.match(read)


def with_small_first_letter(segment: Segment, leg: Leg) -> Segment:
    """Returns a segment that may begin small, with a small first letter in what the model reads."""
    small = _with_small_first_letter(segment.read)
    return replace(segment, ids=leg.encode_ids(small), masked=replace(segment.masked, read=small), small_first=True)


def _with_small_first_letter(read: str) -> str:
    return read[0].lower() + read[1:]


def is_unsure(hypothesis: Hypothesis, options: DecodingOptions) -> bool:
    """Returns whether a second reading may give a better translation."""
    return search_score(hypothesis, options) < UNSURE


def is_surer(other: Hypothesis, first: Hypothesis, options: DecodingOptions, *, copied: bool) -> bool:
    """Returns whether the second reading's translation is kept. `copied`: the first one is the text itself."""
    gain = GAIN_OVER_COPY if copied else GAIN
    return search_score(other, options) > search_score(first, options) + gain


def with_capital_first_letter(text: str) -> str:
    """Returns a text with its first letter as a capital, if this is one letter too and no symbol for a span is before it."""
    symbol = SYMBOL.search(text)
    for i, character in enumerate(text[: symbol.start()] if symbol else text):
        if character.isalpha():
            capital = character.upper()
            return text[:i] + capital + text[i + 1 :] if len(capital) == 1 else text
    return text
