"""A sentence is translated again if its translation lost a span, a name, a sign or a number, with all of them masked."""

from __future__ import annotations

from collections.abc import Sequence

from server.text.numbers import find_numbers
from server.text.protection.copied import SIGN, WORD, acronym_spans, copied_spans, sign_spans
from server.text.protection.losses import lost_spans
from server.text.syntax.match import Match
from server.translation.catalog import Leg
from server.translation.context import Draft, SentenceContext
from server.translation.passes import reranking
from server.translation.preparation import Segment, with_codes

_RARE_LETTERS = frozenset("àâæçèéêëîïôœùûüÿ")
"""Letters that a vocabulary may lack although the language has them: a word such as Israël is translated."""


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft if nothing is lost, or nothing more can be masked."""
    segment = masked_retry(draft.segment, draft.text, context.leg)
    if segment is None:
        return draft
    return await reranking.apply(context, await context.decode(segment))


def masked_retry(segment: Segment, target: str, leg: Leg) -> Segment | None:
    """Returns the segment with all names, signs and numbers masked, if `target`, the translation of what the model read,
    lacks or doubles one of them or lacks a stand-in. Returns None if nothing is lost or nothing more can be masked."""
    names = _names_in_bytes(segment, leg) if leg.model.tokenizer.may_spell(segment.ids) else []
    if not _has_lost(segment, target, names):
        return None
    text = segment.text
    numbers = [Match(*number, "number") for number in find_numbers(text)]
    signs = [Match(*sign.span(), "point") for sign in SIGN.finditer(text)]  # also beside a code: § 1.401(k)-1
    further = [*copied_spans(text), *names, *sign_spans(text), *numbers, *signs]
    return with_codes(segment, further, leg) or with_codes(segment, acronym_spans(text), leg)


def _has_lost(segment: Segment, target: str, names: Sequence[Match]) -> bool:
    """Returns whether a translation of what the model read lacks a stand-in or one of the `names`, or lacks or doubles
    another name, a sign or a number."""
    reading = segment.reading
    if reading.missing(target):
        return True
    read, written = (reading.text.casefold(), target.casefold()) if names else ("", "")
    for word in {segment.text[name.start : name.end].casefold() for name in names}:
        name = word.removesuffix("s")  # of a genitive
        if written.count(name) < read.count(name):
            return True
    return lost_spans(reading.without_stand_ins(reading.text), reading.without_stand_ins(target))


def _names_in_bytes(segment: Segment, leg: Leg) -> list[Match]:
    """Returns the words with a letter that the vocabulary spells in bytes, such as Đoković and Łódź. The languages of the
    model do not have this letter, so the word is a name."""
    tokenizer = leg.model.tokenizer
    letters = {
        character
        for character in segment.text
        if character.isalpha() and not character.isascii() and character.lower() not in _RARE_LETTERS
    }
    spelled = {letter for letter in letters if tokenizer.may_spell(tokenizer.encode_ids(letter.lower()))}
    words = WORD.finditer(segment.text) if spelled else ()
    return [Match(*word.span(), "word") for word in words if not spelled.isdisjoint(word[0])]
