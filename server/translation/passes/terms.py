"""Brings the terms of a glossary into a translation.

If the model has not written a term, the sentence is decoded again. The translation up to the aligned place and the term
are forced, so that the rest of the sentence fits the term. As a last resort the aligned words are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from server.engine.ipc.messages import TranslationResult
from server.text.markup.projection import SpanProjection
from server.text.offsets import OffsetMap
from server.text.protection.glossary import NO_SPACES, TermMatch
from server.text.protection.terms import Edit, case_edits, form, is_start, lacking
from server.text.segmentation import Span
from server.translation.alignment import WordAligner
from server.translation.catalog import Leg
from server.translation.segments import Segment

SPACE = "\u2581"
"""The piece of a space alone."""
SPACED = ".,;:!?…)]}»”%"
"""Characters after which a space follows."""
_FORCED = 8
"""Most translations of a segment with forced terms."""


class Translate(Protocol):
    """Translates a segment. The translation begins with the tokens of `prefix`; with `target` it is only scored."""

    async def __call__(
        self, segment: Segment, leg: Leg, *, prefix: tuple[int, ...] = (), target: tuple[int, ...] | None = None
    ) -> TranslationResult: ...


class TermEnforcer:
    """Makes translations contain the terms of their segments."""

    def __init__(self, aligner: WordAligner) -> None:
        self._aligner = aligner

    async def enforce(
        self, segment: Segment, leg: Leg, answer: TranslationResult, translate: Translate, forced: int = _FORCED
    ) -> TranslationResult:
        """Returns an answer whose best hypothesis has the terms of the segment in their case, without alternatives that
        lack one. At most `forced` further translations are made."""
        decode = leg.model.tokenizer.decode
        terms = in_sentence_case(segment.terms) if segment.capitals else segment.terms
        text = decode(answer.hypotheses[0].tokens)
        missing = lacking(terms, text)
        failed: set[int] = set()
        for _ in range(forced):
            candidates = [term for term in missing if term.start not in failed]
            if not candidates:
                break
            places = await self._places(segment, leg, answer, candidates)
            term = min(candidates, key=lambda one: places[one.start])
            prefix = _prefix(segment, leg, term, places[term.start][0], answer)
            if len(prefix) + 1 >= leg.model.max_length:
                break
            found = await translate(segment, leg, prefix=prefix)
            written = decode(found.hypotheses[0].tokens)
            if len(still := lacking(terms, written)) < len(missing):
                answer, text, missing = found, written, still
            else:
                failed.add(term.start)
        if missing:
            edits = _replacements(segment, text, await self._places(segment, leg, answer, missing), missing)
            answer = await _with_edits(segment, leg, answer, edits, translate)
            text = decode(answer.hypotheses[0].tokens)
        answer = await _with_edits(segment, leg, answer, case_edits(terms, segment.text, text), translate)
        best, *others = answer.hypotheses
        kept = [other for other in others if not lacking(terms, decode(other.tokens))]
        return replace(answer, hypotheses=(best, *kept))

    async def _places(
        self, segment: Segment, leg: Leg, answer: TranslationResult, terms: Sequence[TermMatch]
    ) -> dict[int, Span]:
        """Returns the words of the translation that terms are aligned to, by the position of the term."""
        masked, tokens = segment.masked, answer.hypotheses[0].tokens
        links = await self._aligner.sentence_links(leg, masked.read, segment.ids, tokens)
        projection = SpanProjection(masked.read, leg.model.tokenizer.decode(tokens), links)
        read = OffsetMap(masked.runs or ((0, 0, len(segment.text)),))
        return {term.start: projection.project(read.span((term.start, term.end))) for term in terms}


def in_sentence_case(terms: Sequence[TermMatch]) -> tuple[TermMatch, ...]:
    """Returns the terms of a segment in capitals, which the model reads in sentence case."""
    return tuple([replace(term, case="written") for term in terms])


def _prefix(segment: Segment, leg: Leg, term: TermMatch, place: int, answer: TranslationResult) -> tuple[int, ...]:
    """Returns the tokens before a place of the translation, and those of the term."""
    tokens = answer.hypotheses[0].tokens
    decoding = leg.model.tokenizer.decode_pieces(tokens)
    before = [token for token, (_, end) in zip(tokens, decoding.offsets, strict=True) if end <= place]
    before = _without_last_space(before, leg)
    word = form(term, segment.text, is_start(decoding.text, place))
    return (*before, *_tokens_of(word, leg, is_joined(decoding.text, place)))


def _replacements(segment: Segment, text: str, places: dict[int, Span], terms: Sequence[TermMatch]) -> list[Edit]:
    """Returns the edits that put the terms in place of the words that they are aligned to."""
    edits: list[Edit] = []
    for term in sorted(terms, key=lambda one: places[one.start]):
        start, end = places[term.start]
        while edits and start < end and (start < edits[-1][1] or text[start].isspace()):
            start += 1
        edits.append((start, max(start, end), form(term, segment.text, is_start(text, start))))
    return edits


async def _with_edits(
    segment: Segment, leg: Leg, answer: TranslationResult, edits: Sequence[Edit], translate: Translate
) -> TranslationResult:
    """Returns the answer with edits of its best hypothesis, which the model scores."""
    if not edits:
        return answer
    tokens = _edited(answer.hypotheses[0].tokens, leg, edits)
    if len(tokens) + 1 >= leg.model.max_length:
        return answer
    scored = await translate(segment, leg, target=tokens)
    return replace(answer, hypotheses=(scored.hypotheses[0], *answer.hypotheses[1:]))


def _edited(tokens: Sequence[int], leg: Leg, edits: Sequence[Edit]) -> tuple[int, ...]:
    """Returns the tokens of a translation after edits of its text, which are in order and do not overlap."""
    decoding = leg.model.tokenizer.decode_pieces(tokens)
    text, spans = decoding.text, decoding.offsets
    result: list[int] = []
    done = 0
    for start, end, word in edits:
        while done < len(tokens) and spans[done][1] <= start and spans[done][0] < max(start, 1):
            result.append(tokens[done])
            done += 1
        first = last = done
        while last < len(tokens) and spans[last][0] < end:
            last += 1
        low = min(start, spans[first][0]) if last > first else start
        high = max(end, spans[last - 1][1]) if last > first else end
        result = _without_last_space(result, leg)
        result += _tokens_of(text[low:start] + word + text[end:high], leg, is_joined(text, low))
        done = last
    return (*result, *tokens[done:])


def is_joined(text: str, place: int) -> bool:
    """Returns whether a word at a place of a text follows the character before it without a space: a bracket, a hyphen,
    or a character of a script without spaces."""
    before = text[place - 1 : place]
    if not before or before.isspace():
        return False
    return not (before.isalnum() or before in SPACED) or NO_SPACES.match(before) is not None


def _without_last_space(tokens: list[int], leg: Leg) -> list[int]:
    """Returns the tokens without spaces at the end, which belong to the word after them."""
    while tokens and leg.model.tokenizer.piece(tokens[-1]) == SPACE:
        tokens = tokens[:-1]
    return tokens


def _tokens_of(word: str, leg: Leg, joined: bool) -> tuple[int, ...]:
    """Returns the tokens of a word, which is `joined` to the character before it, or stands after a space."""
    encode = leg.model.tokenizer.encode_target
    return encode(f"({word}")[len(encode("(")) :] if joined else encode(word)
