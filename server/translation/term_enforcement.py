"""Brings the terms of a glossary into a translation.

If the model has not written a term, the sentence is decoded again, with the translation up to the aligned place and the
term forced, so that the rest of the sentence fits the term. As a last resort the aligned words are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from server.engine.ipc.messages import TranslationResult
from server.text.glossary import TermMatch
from server.text.offsets import OffsetMap, edited
from server.text.segmentation import Span
from server.text.span_projection import SpanProjection
from server.text.term_forms import form, in_case, is_start, lacking
from server.translation.catalog import Leg
from server.translation.markup_alignment import WordAligner
from server.translation.segments import Segment

SPACE = "\u2581"
"""The piece of a space alone."""
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
            text = _replaced(segment, text, await self._places(segment, leg, answer, missing), missing)
        answer = await _written(segment, leg, answer, in_case(terms, segment.text, text), translate)
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
    tokenizer, tokens = leg.model.tokenizer, answer.hypotheses[0].tokens
    decoding = tokenizer.decode_pieces(tokens)
    before = [token for token, (_, end) in zip(tokens, decoding.offsets, strict=True) if end <= place]
    while before and decoding.pieces[len(before) - 1] == SPACE:  # belongs to the word after it
        before.pop()
    word = form(term, segment.text, is_start(decoding.text, place))
    if place and not decoding.text[place - 1].isspace():  # in brackets or quotes
        bracket = tokenizer.encode_target("(")
        return (*before, *tokenizer.encode_target(f"({word}")[len(bracket) :])
    return (*before, *tokenizer.encode_target(word))


def _replaced(segment: Segment, text: str, places: dict[int, Span], terms: Sequence[TermMatch]) -> str:
    """Returns the text with the terms instead of the words that they are aligned to."""
    edits: list[tuple[int, int, str]] = []
    for term in sorted(terms, key=lambda one: places[one.start]):
        start, end = places[term.start]
        start = max(start, edits[-1][1]) if edits else start
        end = max(start, end)
        word = form(term, segment.text, is_start(text, start))
        before = " " if start and not text[start - 1].isspace() and (start == end or text[start - 1].isalnum()) else ""
        after = " " if text[end : end + 1].isalnum() else ""
        edits.append((start, end, before + word + after))
    return edited(text, edits)[0]


async def _written(
    segment: Segment, leg: Leg, answer: TranslationResult, text: str, translate: Translate
) -> TranslationResult:
    """Returns the answer with another text of the best hypothesis, scored by the model. A text that the vocabulary
    cannot write is left as it was."""
    tokenizer = leg.model.tokenizer
    if text == tokenizer.decode(answer.hypotheses[0].tokens):
        return answer
    tokens = tokenizer.encode_target(text)
    if tokenizer.decode(tokens) != text or len(tokens) + 1 >= leg.model.max_length:
        return answer
    scored = await translate(segment, leg, target=tokens)
    return replace(answer, hypotheses=(scored.hypotheses[0], *answer.hypotheses[1:]))
