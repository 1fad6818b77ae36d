"""A sentence whose translation lost or doubled an exact token is translated again with this token masked; if others are
then lost, with all of them masked."""

from __future__ import annotations

from server.text.exact_tokens import WORD, acronyms, all_tokens, lost_tokens
from server.text.syntax.match import Match
from server.translation.catalog import Leg
from server.translation.context import Draft, SentenceContext
from server.translation.passes import reranking
from server.translation.preparation import Segment, with_codes

_RARE_LETTERS = frozenset("àâæçèéêëîïôœùûüÿ")
"""Letters that a vocabulary may lack although the language has them: a word such as Israël is translated."""


async def apply(context: SentenceContext, draft: Draft) -> Draft:
    """Returns the draft that has lost the fewest tokens."""
    best, least = draft, lost(draft.segment, draft.text, context.leg)
    for everything in (False, True):
        if least is None:
            return best
        segment = best.segment
        masked = with_codes(segment, all_of(segment, context.leg) if everything else least, context.leg)
        if masked is None and everything:
            masked = with_codes(segment, acronyms(segment.text), context.leg)
        if masked is None:
            continue
        other = await reranking.apply(context, await context.decode(masked))
        left = lost(masked, other.text, context.leg)
        if everything or left is None or len(left) < len(least):
            best, least = other, left
    return best


def lost(segment: Segment, target: str, leg: Leg) -> list[Match] | None:
    """Returns what `target`, the translation of what the model read, lacks or doubles; None if it has everything. The list is
    empty if only stand-ins are missing."""
    reading, text = segment.reading, list(segment.text)
    for code in segment.tagged.codes:
        text[code.start : code.end] = " " * (code.end - code.start)
    visible, rest = "".join(text), reading.without_stand_ins(target)
    read, written = visible.casefold(), target.casefold()
    found = lost_tokens(visible, rest)
    names = []
    for name in _names_in_bytes(segment, leg):
        word = visible[name.start : name.end].casefold().removesuffix("s")  # of a genitive
        if word.strip() and written.count(word) < read.count(word):
            names.append(name)
    return [*(found or ()), *names] if found is not None or names or reading.missing(target) else None


def all_of(segment: Segment, leg: Leg) -> list[Match]:
    """Returns all that may be masked."""
    tokens = all_tokens(segment.text)
    return [*[token for token in tokens if token.kind], *_names_in_bytes(segment, leg), *tokens]


def _names_in_bytes(segment: Segment, leg: Leg) -> list[Match]:
    """Returns the words with a letter that the vocabulary spells in bytes, such as Erdoğan. The languages of the model do not
    have this letter, so the word is a name."""
    tokenizer = leg.model.tokenizer
    if not tokenizer.may_spell(segment.ids):
        return []
    letters = {
        character
        for character in segment.text
        if character.isalpha() and not character.isascii() and character.lower() not in _RARE_LETTERS
    }
    spelled = {letter for letter in letters if tokenizer.may_spell(tokenizer.encode_ids(letter.lower()))}
    words = WORD.finditer(segment.text) if spelled else ()
    return [Match(*word.span(), "word") for word in words if not spelled.isdisjoint(word[0])]
