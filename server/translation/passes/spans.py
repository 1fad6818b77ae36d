"""Puts the protected spans of a segment into its translation, each once and at the aligned place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from model.symbols import PLACEHOLDERS
from server.engine.ipc.messages import TranslationResult
from server.text.markup.projection import Link
from server.text.offsets import Run
from server.text.protection.mask import WORDS, Masked, StandIn
from server.text.protection.restore import aligned_place, repaired, restore
from server.text.protection.stand_ins import stand_ins_of
from server.translation.alignment import WORD, WordAligner, links_by_position
from server.translation.catalog import Leg
from server.translation.passes.first_letter import with_capital_first_letter
from server.translation.segments import Segment, without_stand_ins

_FORCED = 2
"""Most translations of a segment in which a stand-in that the model dropped is forced."""


class TranslateWithPrefix(Protocol):
    """Translates a segment; the translation begins with the tokens of `prefix`."""

    async def __call__(self, segment: Segment, leg: Leg, *, prefix: tuple[int, ...] = ()) -> TranslationResult: ...


@dataclass(frozen=True, slots=True)
class Placed:
    """The translations of a segment with its spans, and the parts that the best shares with what the model wrote.
    `inserted` is True if a span stands where the words before it are linked to, since the model did not place it."""

    segment: Segment
    answer: TranslationResult
    texts: tuple[str, ...]
    runs: tuple[Run, ...]
    inserted: bool


class SpanPlacer:
    """Restores protected spans. If the model drops one, the segment is translated again with its stand-in forced at the
    aligned place; as a last resort the span is inserted there."""

    def __init__(self, aligner: WordAligner) -> None:
        self._aligner = aligner

    async def place(
        self,
        segment: Segment,
        leg: Leg,
        answer: TranslationResult,
        messages: Mapping[str, str],
        translate: TranslateWithPrefix,
    ) -> Placed:
        """Returns every hypothesis with all spans of the segment. `messages` holds the translations of ICU messages."""
        decode = leg.model.tokenizer.decode
        if segment.masked.missing(decode(answer.hypotheses[0].tokens)):
            segment, answer = await self._forced(segment, leg, answer, translate)
        masked = segment.masked.with_messages(messages)
        best, *others = [decode(hypothesis.tokens) for hypothesis in answer.hypotheses]
        if segment.small_first:
            best, *others = [with_capital_first_letter(text) for text in (best, *others)]
        inserted = bool(masked.missing(best)) or lacks_stand_ins(segment)
        complete = masked.is_complete(best)
        links: Sequence[Link]
        if complete and not _needs_links(masked):
            links = links_by_position(masked.read, best) if masked.marks else ()
        else:
            links = await self._aligner.sentence_links(leg, masked.read, segment.ids, answer.hypotheses[0].tokens)
        write = str.upper if segment.capitals else str
        if not complete:
            best, links = repaired(masked, best, links)
        restored = restore(masked, best, links, write)
        texts = [restored.text]
        for other in others:
            fixed, links = repaired(masked, other, links_by_position(masked.read, other))
            texts.append(restore(masked, fixed, links, write).text)
        return Placed(segment, answer, tuple(texts), restored.runs if complete else (), inserted)

    async def _forced(
        self, segment: Segment, leg: Leg, answer: TranslationResult, translate: TranslateWithPrefix
    ) -> tuple[Segment, TranslationResult]:
        """Returns an answer with fewer stand-ins missing. Where a name or a number stands for a missing span, the
        segment is translated without it, because the model may have written another one."""
        decode = leg.model.tokenizer.decode
        masked = segment.masked
        if not stand_ins_of(leg.model.tokenizer).symbols:
            bare = without_stand_ins(segment, leg)
            return bare, await translate(bare, leg)
        for _ in range(_FORCED):
            tokens = answer.hypotheses[0].tokens
            missing = masked.missing(decode(tokens))
            if not missing:
                break
            links = await self._aligner.sentence_links(leg, masked.read, segment.ids, tokens)
            prefix = _prefix(leg, masked, missing, tokens, links)
            if len(prefix) + 1 >= leg.model.max_length:
                break
            found = await translate(segment, leg, prefix=prefix)
            if len(masked.missing(decode(found.hypotheses[0].tokens))) >= len(missing):
                break
            answer = found
        return segment, answer


def lacks_stand_ins(segment: Segment) -> bool:
    """Returns whether a span that stands for a word of the segment was taken out of the text that the model read."""
    words = sum(span.role in WORDS for span in segment.spans)
    return words > len(segment.masked.stand_ins)


def _needs_links(masked: Masked) -> bool:
    """Returns whether a mark is between words, so that its place depends on the links. Few words give little order to
    many marks, which are placed by position."""
    if len(masked.marks) > len(WORD.findall(masked.read)):
        return False
    end = len(masked.read.rstrip())
    return any(mark.span[1] > 0 and mark.span[0] < end and mark.span != (0, end) for mark in masked.marks)


def _prefix(
    leg: Leg, masked: Masked, missing: Sequence[StandIn], tokens: Sequence[int], links: Sequence[Link]
) -> tuple[int, ...]:
    """Returns the tokens before the first place where a stand-in is missing, and those of the stand-in."""
    tokenizer = leg.model.tokenizer
    decoding = tokenizer.decode_pieces(tokens)
    place, item = min(
        [(aligned_place(masked, decoding.text, links, item), item) for item in missing], key=lambda found: found[0]
    )
    before = [
        token
        for token, piece, (_, end) in zip(tokens, decoding.pieces, decoding.offsets, strict=True)
        if end <= place and ((symbol := piece.lstrip("\u2581")) not in PLACEHOLDERS or symbol in masked.read)
    ]
    word = tokenizer.encode_target(item.word)
    if before and not masked.read[: item.span[0]][-1:].isspace():  # in brackets or quotes
        bracket = tokenizer.encode_target("(")
        word = tokenizer.encode_target(f"({item.word}")[len(bracket) :]
    return (*before, *word)
