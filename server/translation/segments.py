"""Cuts a text into segments for one model: sentences, or parts of sentences that are longer than the model reads."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from server.text.markup_projection import Mark
from server.text.numbers import find_numbers, lacks_numbers
from server.text.placeholders import (
    byte_fallback_spans,
    do_not_translate_spans,
    is_all_caps,
    mask,
    merge_spans,
    restore,
    to_sentence_case,
)
from server.text.segmentation import Span, Split, split_long_sentence, split_sentences
from server.text.unicode_scripts import is_translatable
from server.translation.catalog import Leg

LINE_ENDS = re.compile(r"[\t-\r\x85]")


@dataclass(frozen=True, slots=True)
class Segment:
    """One sentence, or a part of one that is longer than the model reads. A segment without ids is copied.

    `read` is the text that the model reads, encoded as `ids`. It is the segment's text in sentence case if `capitals`,
    and without the masked spans in `marks`.
    """

    span: Span
    text: str
    ids: tuple[int, ...] = ()
    read: str = ""
    capitals: bool = False
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """The segments of a text in order. The text between two segments is copied."""

    text: str
    leg: Leg
    segments: tuple[Segment, ...]

    def join(self, targets: Sequence[str]) -> str:
        """Returns the text with each segment replaced by its target."""
        parts: list[str] = []
        done = 0
        for segment, target in zip(self.segments, targets, strict=True):
            parts += (self.text[done : segment.span[0]], target)
            done = segment.span[1]
        parts.append(self.text[done:])
        return "".join(parts)


def segment_text(text: str, leg: Leg, split: Split = "all") -> SegmentedText:
    """Cuts a text into segments that the leg's model can read, and encodes them."""
    segments: list[Segment] = []
    for start, end in split_sentences(text, leg.source, split):
        segments += _segments(text, start, end, leg, leg.model.max_length)
    return SegmentedText(text, leg, tuple(segments))


def masked_retry(segment: Segment, target: str, leg: Leg) -> Segment | None:
    """Returns the segment to translate instead if `target` lacks an address, an emoji, a name or a number of the
    segment: the same segment with these masked. Returns None if nothing is missing. Masked spans stay masked."""
    spans: list[Span] = []
    if not segment.marks:
        kept = do_not_translate_spans(segment.read)
        spans = kept if any(segment.read[start:end] not in target for start, end in kept) else []
    read = segment.read
    if lacks_numbers(read, target):
        if segment.marks:
            read = restore(segment.marks, read, read, ())
            spans = byte_fallback_spans(read, leg.source, leg.model.tokenizer.encode(read, leg.target, leg.source))
        spans = [*spans, *do_not_translate_spans(read), *find_numbers(read)]
    return _mask_spans(dataclasses.replace(segment, read=read), merge_spans(spans), leg) if spans else None


def _segments(text: str, start: int, end: int, leg: Leg, limit: int) -> list[Segment]:
    """Returns text[start:end] as one segment, or as several of at most `limit` tokens if the model cannot read it."""
    content = text[start:end]
    if not is_translatable(content, leg.source):
        return [Segment((start, end), content)]
    capitals = is_all_caps(content)
    read = LINE_ENDS.sub(" ", to_sentence_case(content) if capitals else content)
    tokenizer = leg.model.tokenizer
    ids = tokenizer.encode_ids(read, leg.target, leg.source)
    if len(ids) <= leg.model.max_length:
        segment = Segment((start, end), content, ids, read, capitals)
        return [_mask_byte_fallback(segment, leg) if tokenizer.may_spell(ids) else segment]
    encoding = tokenizer.encode(read, leg.target, leg.source)
    # The language tag and the end of sentence have empty offsets. They are part of every segment and reduce its limit.
    starts = [offset[0] for offset in encoding.offsets if offset[1] > offset[0]]
    room = limit - (len(encoding.ids) - len(starts))
    if room < 1 or end - start == 1:
        return [Segment((start, end), content)]
    parts = split_long_sentence(content, starts, room)
    # A part can have more tokens on its own than within its sentence. It is then cut again with half the limit.
    finer = limit if len(parts) > 1 else limit // 2
    return [segment for first, last in parts for segment in _segments(text, start + first, start + last, leg, finer)]


def _mask_byte_fallback(segment: Segment, leg: Leg) -> Segment:
    """Masks the byte-fallback spans of a segment. If there are any, addresses and names are masked too, because a
    masked segment is not masked again."""
    spans = byte_fallback_spans(
        segment.read, leg.source, leg.model.tokenizer.encode(segment.read, leg.target, leg.source)
    )
    if not spans:
        return segment
    return _mask_spans(segment, merge_spans([*spans, *do_not_translate_spans(segment.read)]), leg)


def _mask_spans(segment: Segment, spans: Sequence[Span], leg: Leg) -> Segment:
    """Masks spans of the text that the model reads. The segment is copied if nothing else is left to translate."""
    read, marks = mask(segment.read, spans)
    if not is_translatable(read, leg.source):
        return Segment(segment.span, segment.text)
    ids = leg.model.tokenizer.encode_ids(read, leg.target, leg.source)
    return dataclasses.replace(segment, ids=ids, read=read, marks=marks)
