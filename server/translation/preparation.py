"""Prepares texts for translation: detects the language, finds the route, parses HTML, and cuts passages into segments for
one model: sentences, or parts of sentences that are too long for it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from model.symbols import FORMAL, INFORMAL
from server.errors import InvalidRequest
from server.text.language_id import DetectedLanguage, LanguageDetector
from server.text.languages import is_translatable
from server.text.markup.passages import Passage, parse_passages
from server.text.offsets import OffsetMap, edited
from server.text.protection.copied import byte_fallback_spans, without_overlaps
from server.text.protection.find import NUMBER_SIGN, ProtectedSpan, parts_within, read_message
from server.text.protection.glossary import TermIndex, TermMatch
from server.text.protection.mask import Masked, is_all_caps, mask, to_sentence_case, widened
from server.text.protection.stand_ins import stand_ins_of
from server.text.protection.terms import find_parts
from server.text.segmentation import Span, Split, split_long_sentence, split_sentences
from server.translation.catalog import AUTO, Leg, ModelCatalog
from server.translation.types import TranslationRequest

LINE_ENDS = re.compile(r"[\t-\r\x85]")
NO_FORMALITY = (
    "'formality' is not supported for given 'target_lang'; prefer_more and prefer_less pass without an effect."
)


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


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """The segments of a text in order. The text between two segments is copied."""

    text: str
    leg: Leg
    segments: tuple[Segment, ...]

    def join(self, targets: Sequence[str]) -> str:
        """Returns the text with each segment replaced by its target."""
        edits = [(*segment.span, target) for segment, target in zip(self.segments, targets, strict=True)]
        return edited(self.text, edits)[0]


@dataclass(slots=True)
class PreparedText:
    """One text of a request before its first leg. `segmented` holds the passages as the first leg's model reads them.
    Without a leg, because source and target language are the same, both are empty."""

    number: int
    text: str
    detected: DetectedLanguage | None
    route: tuple[Leg, ...]
    passages: tuple[Passage, ...]
    segmented: tuple[SegmentedText, ...]


def prepare(request: TranslationRequest, catalog: ModelCatalog, detector: LanguageDetector) -> list[PreparedText]:
    """Prepares the texts of a request. Raises UnsupportedLanguage, or InvalidRequest if a language is not detected."""
    target = catalog.target(request.target)
    source = None if request.source.strip().lower() == AUTO else catalog.source(request.source)
    parsed: list[tuple[Passage, ...]] = []
    guesses: Sequence[Sequence[DetectedLanguage]] = ()
    if source is None:
        parsed = [parse_passages(text, request.format) for text in request.texts]
        samples = [" ".join([passage.text for passage in passages]) for passages in parsed]
        guesses = detector.detect_all(samples, target, request.accepted)
    prepared = []
    for number, text in enumerate(request.texts):
        detected, language = (None, source) if source is not None else _source(guesses[number], catalog, target)
        route = addressed(catalog.route(language, target), request)
        passages: tuple[Passage, ...] = ()
        segmented: tuple[SegmentedText, ...] = ()
        if route:
            passages = parsed[number] if parsed else parse_passages(text, request.format)
            segmented = segment_passages(passages, route[0], request)
        prepared.append(PreparedText(number, text, detected, route, passages, segmented))
    return prepared


def addressed(route: tuple[Leg, ...], request: TranslationRequest) -> tuple[Leg, ...]:
    """Returns the route with the form of address of the request in its last leg. Raises InvalidRequest if it is required
    and the model does not know it."""
    if request.formality is None or not route:
        return route
    *before, last = route
    if last.target not in last.model.formality:
        if request.formality_required:
            raise InvalidRequest(NO_FORMALITY)
        return route
    return (*before, replace(last, symbol=FORMAL if request.formality == "formal" else INFORMAL))


def segment_passages(
    passages: Sequence[Passage], leg: Leg, request: TranslationRequest, first: bool = True
) -> tuple[SegmentedText, ...]:
    """Cuts the passages of a text into the segments that the leg's model translates. If the leg is not the `first`, the
    terms of the glossary are already translated, and are kept."""
    split = request.split or ("punctuation" if request.format == "html" else "all")
    glossary = request.glossary if first or request.glossary is None else request.glossary.translations
    kept = request.do_not_translate
    return tuple([segment_text(passage.text, leg, split, kept, glossary) for passage in passages])


def _source(guesses: Sequence[DetectedLanguage], catalog: ModelCatalog, target: str) -> tuple[DetectedLanguage, str]:
    """Returns the detected language and the served source language for it. A text that is in no served language, or has
    no letters, is copied: its source is the target."""
    if not guesses:
        raise InvalidRequest("The language cannot be detected here; name it in source.")
    if guesses[0].confidence == 0 or guesses[0].language not in catalog.sources:
        return guesses[0], target
    return guesses[0], catalog.source(guesses[0].language)


def segment_text(
    text: str,
    leg: Leg,
    split: Split = "all",
    kept: tuple[str, ...] = (),
    glossary: TermIndex | None = None,
) -> SegmentedText:
    """Cuts a text into segments that the leg's model can read, and encodes them. The words of `kept` are not translated,
    in addition to the spans that are always protected."""
    spans, terms = find_parts(text, kept, glossary, split == "all", partial(_is_writable, leg))
    cutter = _Cutter(leg, split, kept, glossary)
    segments: list[Segment] = []
    for start, end in _sentences(text, leg.source, split, spans, terms):
        inside = parts_within(spans, start, end)
        if inside and inside[0].role == "icu" and (inside[0].start, inside[0].end) == (0, end - start):
            segments += cutter.message(text[start:end], start).segments
        else:
            inner = parts_within(terms, start, end)
            segments += cutter.segments(text[start:end], start, inside, inner, leg.model.segment_length)
    return SegmentedText(text, leg, tuple(segments))


def _is_writable(leg: Leg, text: str) -> bool:
    """Returns whether the leg's model can write a text character by character."""
    tokenizer = leg.model.tokenizer
    return tokenizer.decode(tokenizer.encode_target(text)) == text


def _sentences(
    text: str, language: str, split: Split, spans: Sequence[ProtectedSpan], terms: Sequence[TermMatch]
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
    return _joined_within(sentences, [*[span for span in spans if span.role != "break"], *terms])


def _joined_within(sentences: Sequence[Span], parts: Sequence[ProtectedSpan | TermMatch]) -> list[Span]:
    """Returns the sentences, which are in order, joined where one ends within a span or a term."""
    spans = sorted([(part.start, part.end) for part in parts])
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


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Makes segments of sentences for one leg."""

    leg: Leg
    split: Split
    kept: tuple[str, ...]
    glossary: TermIndex | None

    def segments(
        self, content: str, start: int, spans: Sequence[ProtectedSpan], terms: Sequence[TermMatch], limit: int
    ) -> list[Segment]:
        """Returns a sentence, which is at `start` of its text, as one segment, or as several of at most `limit` tokens
        if it is too long for the model."""
        leg = self.leg
        messages = [self.message(content[span.start : span.end]) for span in spans if span.role == "icu"]
        whole = Segment((start, start + len(content)), content, messages=tuple(messages), terms=tuple(terms))
        segment = _encoded(whole, spans, leg)
        if len(segment.ids) <= leg.model.segment_length:
            if not leg.model.tokenizer.may_spell(segment.ids):
                return [segment]
            return [with_spans(segment, byte_fallback_spans(content, leg.source, leg.encode(content)), leg) or segment]
        encoding = leg.encode(content if spans else segment.read)
        # The language tag and the end of sentence have empty offsets. They are part of every segment and reduce its
        # limit.
        starts = [offset[0] for offset in encoding.offsets if offset[1] > offset[0]]
        room = limit - (len(encoding.ids) - len(starts))
        if room < 1 or len(content) == 1:
            return [replace(whole, messages=())]
        parts = _joined_within(split_long_sentence(content, starts, room), (*spans, *terms))
        # A part can have more tokens on its own than within its sentence. It is then cut again with half the limit.
        finer = limit if len(parts) > 1 else limit // 2
        return [
            segment
            for first, last in parts
            for segment in self.segments(
                content[first:last],
                start + first,
                parts_within(spans, first, last),
                parts_within(terms, first, last),
                finer,
            )
        ]

    def message(self, text: str, offset: int = 0) -> SegmentedText:
        """Returns an ICU message with its arms as segments, `offset` characters after their place in the message."""
        kept = (*self.kept, NUMBER_SIGN)
        arms, _ = read_message(text, 0) or ([], 0)
        segments = [
            replace(segment, span=(segment.span[0] + start + offset, segment.span[1] + start + offset))
            for start, end in arms
            for segment in segment_text(text[start:end], self.leg, self.split, kept, self.glossary).segments
        ]
        return SegmentedText(text, self.leg, tuple(segments))


def with_spans(segment: Segment, further: Sequence[ProtectedSpan], leg: Leg) -> Segment | None:
    """Returns the segment with further spans masked, as far as they do not overlap its spans and terms; None if there are
    none."""
    free = [
        span for span in further if not any(term.start < span.end and span.start < term.end for term in segment.terms)
    ]
    spans = without_overlaps([*segment.spans, *free])
    return _encoded(segment, spans, leg) if len(spans) > len(segment.spans) else None


def _encoded(segment: Segment, spans: Sequence[ProtectedSpan], leg: Leg) -> Segment:
    """Returns the segment as the model reads it, with these spans masked. It is copied if nothing else is left to
    translate."""
    text = segment.text
    stand_ins = stand_ins_of(leg.model.tokenizer) if spans else None
    spans = widened(text, spans) if stand_ins and not stand_ins.symbols else spans
    masked = mask(text, spans)
    plain = masked.read
    if segment.terms:
        places = OffsetMap(masked.runs or ((0, 0, len(text)),))
        terms = [places.span((term.start, term.end)) for term in segment.terms]
        plain = edited(plain, [(*term, " ") for term in terms])[0]
    if not is_translatable(plain, leg.source):
        return Segment(segment.span, text, spans=tuple(spans), messages=segment.messages, terms=segment.terms)
    capitals = is_all_caps(masked.read)
    read = text_to_read(text, spans, capitals)
    if stand_ins:
        masked = mask(read, spans, stand_ins.choose(text, spans))
    elif read != masked.read:
        masked = Masked(read)
    ids = leg.encode_ids(masked.read)
    return Segment(segment.span, text, ids, masked, capitals, tuple(spans), segment.messages, segment.terms)


def text_to_read(text: str, spans: Sequence[ProtectedSpan], capitals: bool) -> str:
    """Returns a text in sentence case if `capitals`, and without line ends. The spans are not changed."""
    read = to_sentence_case(text) if capitals else text
    read = LINE_ENDS.sub(" ", read if len(read) == len(text) or not spans else text)
    for span in spans:
        read = read[: span.start] + text[span.start : span.end] + read[span.end :]
    return read
