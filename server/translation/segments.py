"""Cuts a text into segments for one model: sentences, or parts of sentences that are too long for the model."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from server.text.languages import is_translatable
from server.text.offsets import OffsetMap, edited
from server.text.protection.copied import (
    byte_fallback_spans,
    copied_spans,
    lost_spans,
    number_spans,
    sign_spans,
    without_overlaps,
    words_with,
)
from server.text.protection.find import ProtectedSpan, find_protected_spans, spans_within
from server.text.protection.glossary import TermIndex, TermMatch
from server.text.protection.icu import message_arms
from server.text.protection.mask import Masked, is_all_caps, mask, to_sentence_case, widened
from server.text.protection.stand_ins import stand_ins_of
from server.text.protection.terms import find_terms, terms_within, without_terms
from server.text.segmentation import Span, Split, split_long_sentence, split_sentences
from server.translation.catalog import Leg

LINE_ENDS = re.compile(r"[\t-\r\x85]")
_NUMBER_SIGN = re.compile(r"#(?!\w)")
"""Stands for the number in the arms of an ICU message."""
_RARE_LETTERS = frozenset("àâæçèéêëîïôœùûüÿ")
"""Letters that a vocabulary may lack although the language has them: a word such as Israël is translated."""


@dataclass(slots=True)
class Segment:
    """One sentence, or a part of one that is too long for the model. A segment without ids is copied.

    `masked` is what the model reads, encoded as `ids`: the segment's text in sentence case if `capitals`, with a small
    first letter if `small_first`, without its protected `spans`. `messages` are the ICU messages among them. `terms` are
    those of the glossary.
    """

    span: Span
    text: str
    ids: tuple[int, ...] = ()
    masked: Masked = Masked("")
    capitals: bool = False
    spans: tuple[ProtectedSpan, ...] = ()
    messages: tuple[SegmentedText, ...] = ()
    terms: tuple[TermMatch, ...] = ()
    small_first: bool = False

    @property
    def read(self) -> str:
        """The text that the model reads."""
        return self.masked.read


@dataclass(slots=True)
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
            start, end = segment.span
            parts += (self.text[done:start], target)
            done = end
        parts.append(self.text[done:])
        return "".join(parts)


def segment_text(
    text: str,
    leg: Leg,
    split: Split = "all",
    kept: re.Pattern[str] | None = None,
    glossary: TermIndex | None = None,
) -> SegmentedText:
    """Cuts a text into segments that the leg's model can read, and encodes them. `kept` finds spans that are not
    translated, in addition to those that are always protected."""
    spans = find_protected_spans(text, kept)
    terms: Sequence[TermMatch] = ()
    if glossary is not None:
        spans, terms = find_terms(text, glossary, spans, split == "all", partial(_is_writable, leg))
    cutter = _Cutter(leg, split, kept, glossary)
    segments: list[Segment] = []
    for start, end in _sentences(text, spans, leg.source, split, terms):
        inside = spans_within(spans, start, end) if spans else []
        if inside and inside[0].role == "icu" and (inside[0].start, inside[0].end) == (0, end - start):
            segments += cutter.message(text[start:end], start).segments
        else:
            inner = terms_within(terms, start, end) if terms else ()
            segments += cutter.segments(text[start:end], start, inside, inner, leg.model.segment_length)
    return SegmentedText(text, leg, tuple(segments))


def masked_retry(segment: Segment, target: str, leg: Leg) -> Segment | None:
    """Returns the segment to translate instead if `target`, the translation of what the model read, lacks a stand-in, or
    lacks or doubles a name, a sign or a number: the same segment with all of them masked. Returns None if nothing is lost,
    or nothing more can be masked."""
    names = _names_in_bytes(segment, leg) if leg.model.tokenizer.may_spell(segment.ids) else []
    if not _has_lost(segment, target, names):
        return None
    text = segment.text
    spans = _with_further(segment, [*copied_spans(text), *names, *sign_spans(text), *number_spans(text)])
    return _masked(segment, spans, leg) if len(spans) > len(segment.spans) else None


def _has_lost(segment: Segment, target: str, names: Sequence[ProtectedSpan]) -> bool:
    """Returns whether a translation of what the model read lacks a stand-in or one of the `names`, or lacks or doubles
    another name, a sign or a number."""
    masked = segment.masked
    if masked.missing(target):
        return True
    read, written = (masked.read.casefold(), target.casefold()) if names else ("", "")
    for word in {segment.text[name.start : name.end].casefold() for name in names}:
        name = word.removesuffix("s")  # of a genitive
        if written.count(name) < read.count(name):
            return True
    return lost_spans(masked.without_stand_ins(masked.read), masked.without_stand_ins(target))


def _names_in_bytes(segment: Segment, leg: Leg) -> list[ProtectedSpan]:
    """Returns the words with a letter that the vocabulary spells in bytes, such as Đoković and Łódź. The languages of the
    model do not have this letter, so the word is a name."""
    tokenizer = leg.model.tokenizer
    letters = {
        character
        for character in segment.text
        if character.isalpha() and not character.isascii() and character.lower() not in _RARE_LETTERS
    }
    return words_with(segment.text, {one for one in letters if tokenizer.may_spell(tokenizer.encode_ids(one.lower()))})


def without_stand_ins(segment: Segment, leg: Leg) -> Segment:
    """Returns the segment with all its spans taken out of the text that the model reads."""
    masked = mask(_text_to_read(segment.text, segment.spans, segment.capitals), segment.spans)
    return replace(segment, masked=masked, ids=leg.encode_ids(masked.read))


def _is_writable(leg: Leg, text: str) -> bool:
    """Returns whether the leg's model can write a text character by character."""
    tokenizer = leg.model.tokenizer
    return tokenizer.decode(tokenizer.encode_target(text)) == text


def _sentences(
    text: str, spans: Sequence[ProtectedSpan], language: str, split: Split, terms: Sequence[TermMatch] = ()
) -> list[Span]:
    """Returns the sentences of a text. A sentence does not begin or end within a protected span or a term, or contain a
    break."""
    if not spans and not terms:
        return split_sentences(text, language, split)
    breaks = [(span.start, span.end) for span in spans if span.role == "break"]
    sentences: list[Span] = []
    done = 0
    for start, end in (*breaks, (len(text), len(text))):
        sentences += [(first + done, last + done) for first, last in split_sentences(text[done:start], language, split)]
        done = end
    whole = [(span.start, span.end) for span in spans if span.role != "break"]
    whole = sorted([*whole, *[(term.start, term.end) for term in terms]]) if terms else whole
    return _joined_within(sentences, whole)


def _joined_within(sentences: Sequence[Span], spans: Sequence[Span]) -> list[Span]:
    """Returns the sentences, joined where one ends within a span. Both are in order."""
    starts = [span[0] for span in spans]

    def around(position: int) -> Span:
        """Returns the span that contains a position, or the empty span there."""
        i = bisect_left(starts, position) - 1
        return spans[i] if i >= 0 and position < spans[i][1] else (position, position)

    joined: list[Span] = []
    for first, last in sentences:
        start, end = around(first)[0], around(last)[1]
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


@dataclass(slots=True)
class _Cutter:
    """Makes segments of sentences for one leg."""

    leg: Leg
    split: Split
    kept: re.Pattern[str] | None
    glossary: TermIndex | None

    def segments(
        self,
        content: str,
        start: int,
        spans: Sequence[ProtectedSpan],
        terms: tuple[TermMatch, ...],
        limit: int,
    ) -> list[Segment]:
        """Returns a sentence, which is at `start` of its text, as one segment, or as several of at most `limit` tokens
        if it is too long for the model."""
        leg, tokenizer = self.leg, self.leg.model.tokenizer
        span = (start, start + len(content))
        if spans:
            segment = self._with_spans(Segment(span, content, terms=terms), spans)
        elif is_translatable(without_terms(content, terms) if terms else content, leg.source):
            capitals = is_all_caps(content)
            read = to_sentence_case(content) if capitals else content
            if not read.isprintable():
                read = LINE_ENDS.sub(" ", read)
            ids = leg.encode_ids(read)
            segment = Segment(span, content, ids, Masked(read), capitals, terms=terms)
        else:
            return [Segment(span, content, terms=terms)]
        if len(segment.ids) <= leg.model.segment_length:
            return [_mask_byte_fallback(segment, leg) if tokenizer.may_spell(segment.ids) else segment]
        encoding = leg.encode(segment.read if not spans else content)
        # The language tag and the end of sentence have empty offsets. They are part of every segment and reduce its
        # limit.
        starts = [offset[0] for offset in encoding.offsets if offset[1] > offset[0]]
        room = limit - (len(encoding.ids) - len(starts))
        if room < 1 or len(content) == 1:
            return [Segment(span, content, terms=terms)]
        whole = [*[(one.start, one.end) for one in spans], *[(one.start, one.end) for one in terms]]
        parts = _outside_spans(split_long_sentence(content, starts, room), whole)
        # A part can have more tokens on its own than within its sentence. It is then cut again with half the limit.
        finer = limit if len(parts) > 1 else limit // 2
        return [
            segment
            for first, last in parts
            for segment in self.segments(
                content[first:last],
                start + first,
                spans_within(spans, first, last),
                terms_within(terms, first, last),
                finer,
            )
        ]

    def message(self, text: str, offset: int = 0) -> SegmentedText:
        """Returns an ICU message with its arms as segments, `offset` characters after their place in the message."""
        arm_kept = re.compile(f"{self.kept.pattern}|{_NUMBER_SIGN.pattern}") if self.kept else _NUMBER_SIGN
        segments = [
            replace(segment, span=(segment.span[0] + start + offset, segment.span[1] + start + offset))
            for start, end in message_arms(text, 0)
            for segment in segment_text(text[start:end], self.leg, self.split, arm_kept, self.glossary).segments
        ]
        return SegmentedText(text, self.leg, tuple(segments))

    def _with_spans(self, segment: Segment, spans: Sequence[ProtectedSpan]) -> Segment:
        """Returns the segment with its spans masked and its ICU messages cut into segments."""
        messages = [self.message(segment.text[span.start : span.end]) for span in spans if span.role == "icu"]
        return _masked(replace(segment, messages=tuple(messages)), spans, self.leg)


def _outside_spans(parts: Sequence[Span], spans: Sequence[Span]) -> list[Span]:
    """Returns the parts of a sentence, joined where a span that is kept whole lies in both."""
    result: list[Span] = []
    for first, last in parts:
        if result and any(start < result[-1][1] and first < end for start, end in spans):
            result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return result


def _mask_byte_fallback(segment: Segment, leg: Leg) -> Segment:
    """Masks the words and emoji of a segment that the vocabulary spells in bytes, and the emoji."""
    spelled = byte_fallback_spans(segment.text, leg.source, leg.encode(segment.text))
    spans = _with_further(segment, spelled)
    return _masked(segment, spans, leg) if len(spans) > len(segment.spans) else segment


def _with_further(segment: Segment, found: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """Returns the spans of a segment and those found in it that do not overlap its spans and terms."""
    free = [
        span for span in found if not any(term.start < span.end and span.start < term.end for term in segment.terms)
    ]
    return without_overlaps([*segment.spans, *free])


def _masked(segment: Segment, spans: Sequence[ProtectedSpan], leg: Leg) -> Segment:
    """Returns the segment with these spans masked. It is copied if nothing else is left to translate."""
    text, tokenizer = segment.text, leg.model.tokenizer
    stand_ins = stand_ins_of(tokenizer)
    spans = spans if stand_ins.symbols else widened(text, spans)
    masked = mask(text, spans)
    plain = masked.read
    if not is_translatable(_without_terms(masked, segment.terms), leg.source):
        return Segment(segment.span, text, spans=tuple(spans), messages=segment.messages, terms=segment.terms)
    capitals = is_all_caps(plain)
    read = _text_to_read(text, spans, capitals)
    masked = mask(read, spans, stand_ins.choose(text, spans))
    ids = leg.encode_ids(masked.read)
    return Segment(segment.span, text, ids, masked, capitals, tuple(spans), segment.messages, segment.terms)


def _without_terms(masked: Masked, terms: Sequence[TermMatch]) -> str:
    """Returns the text that the model reads, without the terms."""
    if not terms:
        return masked.read
    places = OffsetMap(masked.runs)
    moved = [places.span((term.start, term.end)) for term in terms]
    return edited(masked.read, [(start, end, " ") for start, end in moved])[0]


def _text_to_read(text: str, spans: Sequence[ProtectedSpan], capitals: bool) -> str:
    """Returns a text in sentence case if `capitals`, and without line ends. The spans are not changed."""
    read = to_sentence_case(text) if capitals else text
    read = LINE_ENDS.sub(" ", read if len(read) == len(text) else text)
    for span in spans:
        read = read[: span.start] + text[span.start : span.end] + read[span.end :]
    return read
