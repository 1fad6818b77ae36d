"""A text cut and encoded for one model: the sentences that go to the worker, and those that are copied."""

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
    """One sentence, or a part of one that is longer than the model takes. No ids: it is copied.

    `read` is what the model reads, encoded as `ids`: the text, in small letters where it is in `capitals`, without the
    `marks` that were taken out.
    """

    span: Span
    text: str
    ids: tuple[int, ...] = ()
    read: str = ""
    capitals: bool = False
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """All segments of a text in order; what lies between them is copied."""

    text: str
    leg: Leg
    segments: tuple[Segment, ...]

    @property
    def tokens(self) -> int:
        """Source tokens that the worker will read."""
        return sum(len(segment.ids) for segment in self.segments)

    def join(self, targets: list[str]) -> str:
        """The text with each segment replaced by its target; every separator stays."""
        parts: list[str] = []
        done = 0
        for segment, target in zip(self.segments, targets, strict=True):
            parts += (self.text[done : segment.span[0]], target)
            done = segment.span[1]
        parts.append(self.text[done:])
        return "".join(parts)


def segment_text(text: str, leg: Leg, split: Split = "all") -> SegmentedText:
    """Cuts a text into sentences that the leg's model can take and encodes them."""
    segments: list[Segment] = []
    for start, end in split_sentences(text, leg.source, split):
        segments += _segments(text, start, end, leg, leg.model.max_length)
    return SegmentedText(text, leg, tuple(segments))


def mask_spans(segment: Segment, spans: Sequence[Span], leg: Leg) -> Segment:
    """The segment with parts of what the model reads taken out; copied where nothing is left to translate."""
    read, marks = mask(segment.read, spans)
    if not is_translatable(read, leg.source):
        return Segment(segment.span, segment.text)
    ids = leg.model.tokenizer.encode_ids(read, leg.target)
    return dataclasses.replace(segment, ids=ids, read=read, marks=marks)


def masked_retry(segment: Segment, target: str, leg: Leg) -> Segment | None:
    """The segment to translate instead if the target lacks an address, an emoji, a name or a number of it: without them.
    None if nothing is missing. What was taken out before stays out."""
    spans: list[Span] = []
    if not segment.marks:
        solid = do_not_translate_spans(segment.read)
        spans = solid if any(segment.read[start:end] not in target for start, end in solid) else []
    read = segment.read
    if lacks_numbers(read, target):
        if segment.marks:
            read = restore(segment.marks, read, read, ())
            spans = byte_fallback_spans(read, leg.source, leg.model.tokenizer.encode(read, leg.target))
        spans = [*spans, *do_not_translate_spans(read), *find_numbers(read)]
    return mask_spans(dataclasses.replace(segment, read=read), merge_spans(spans), leg) if spans else None


def _segments(text: str, start: int, end: int, leg: Leg, limit: int) -> list[Segment]:
    content = text[start:end]
    if not is_translatable(content, leg.source):
        return [Segment((start, end), content)]
    capitals = is_all_caps(content)
    read = LINE_ENDS.sub(" ", to_sentence_case(content) if capitals else content)
    tokenizer = leg.model.tokenizer
    ids = tokenizer.encode_ids(read, leg.target)
    if len(ids) <= leg.model.max_length:
        segment = Segment((start, end), content, ids, read, capitals)
        if not tokenizer.may_spell(ids):
            return [segment]
        spans = byte_fallback_spans(read, leg.source, tokenizer.encode(read, leg.target))
        if spans:  # then this is the only chance for the addresses as well
            spans = merge_spans([*spans, *do_not_translate_spans(read)])
        return [mask_spans(segment, spans, leg) if spans else segment]
    encoding = tokenizer.encode(read, leg.target)
    # Tags and the end of sentence cover nothing; they count for every part, so the parts get that much less.
    starts = [offset[0] for offset in encoding.offsets if offset[1] > offset[0]]
    room = limit - (len(encoding.ids) - len(starts))
    if room < 1 or end - start == 1:
        return [Segment((start, end), content)]
    parts = split_long_sentence(content, starts, room)
    # A part by itself may take more tokens than within its sentence: then it is cut again, finer.
    finer = limit if len(parts) > 1 else limit // 2
    return [segment for first, last in parts for segment in _segments(text, start + first, start + last, leg, finer)]
