"""Prepares texts for translation: detects the language, finds the route, scans the codes, and cuts
the text into segments for one model: sentences, or parts of sentences that are too long for it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from server.text import sentences
from server.text.exact_tokens import exact_tokens, without_overlaps
from server.text.finishing import Finished
from server.text.glossary import TermIndex, TermMatch
from server.text.language_id import DetectedLanguage, LanguageDetector
from server.text.reading import Reading, read, stand_ins_of, widened
from server.text.segmentation import Split, goes_on
from server.text.spans import Span
from server.text.syntax import html, plain, xml
from server.text.syntax.match import Match
from server.text.tagged import MASKED, SPELLED, Code, Tagged, Word
from server.text.vocabulary import may_lack, with_unwritable
from server.translation import coded_text
from server.translation.catalog import AUTO, Leg, ModelCatalog, readable
from server.translation.types import TranslationRequest

ADDED = SPELLED | {"term"}
"""Kinds of codes of a segment that its text does not have."""
_WORDS: Mapping[str, Word] = {"word": "name", "number": "number", "point": ""}
LONGEST_READ = 5_000
"""Most characters that are encoded at once. No model reads a longer sentence."""
LONG_CODE = 40
"""Characters of an exact token that is masked before its sentence is cut within it."""


@dataclass(slots=True, eq=False)
class Segment:
    """One sentence, or a part of one that is too long for the model. A segment without ids is
    copied.

    `reading` is what the model reads, encoded as `ids`: the text of `tagged` without its codes,
    with a small first letter if `small_first`. `messages` are those of the codes that have one,
    `terms` those of the glossary. A part of a sentence `continues` the part before it, and is
    `unfinished` if another follows.
    """

    tagged: Tagged
    ids: tuple[int, ...] = ()
    reading: Reading = Reading()
    messages: tuple[SegmentedText, ...] = ()
    terms: tuple[TermMatch, ...] = ()
    small_first: bool = False
    continues: bool = False
    unfinished: bool = False

    @property
    def text(self) -> str:
        return self.tagged.text

    @property
    def read(self) -> str:
        return self.reading.text

    @property
    def content(self) -> Hashable:
        """Everything that the translation depends on: segments with equal content share it."""
        return self.tagged, self.ids, self.terms, self.continues, self.unfinished


_Placed = tuple[int, Segment]
"""The start of a segment in a text, and the segment."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentedText:
    """A text as segments: at `starts[i]` is segment number `order[i]`, so that a segment at several
    places is stored once. The text between two segments is copied."""

    tagged: Tagged
    leg: Leg
    segments: tuple[Segment, ...]
    order: tuple[int, ...]
    starts: tuple[int, ...]

    @property
    def placed(self) -> list[_Placed]:
        """The segments at their places, in order."""
        return [
            (start, self.segments[number])
            for start, number in zip(self.starts, self.order, strict=True)
        ]

    def join(self, targets: Sequence[Finished]) -> Tagged:
        """Returns the text with each segment replaced by its target. Codes have the data of their
        place in the text."""
        parts = []
        for start, number in zip(self.starts, self.order, strict=True):
            target, end = targets[number], start + len(self.segments[number].text)
            if target.places:
                source = _with_data(target.source, self.tagged, *self.tagged.owned(start, end))
                target = target._replace(source=source)
            parts.append((start, end, target.tagged))
        return self.tagged.with_parts(parts)


def _with_data(segment: Tagged, text: Tagged, first: int, last: int) -> Tagged:
    """Returns a segment with the data and pairs of the codes [first, last) of its text: equal
    segments at several places may have links to different addresses. ADDED codes keep their data,
    but not that of the codes in their message."""
    own = [code for code in segment.codes if code.kind not in ADDED]
    within = [code.message for code in segment.codes if code.kind in ADDED and code.message]
    if len(own) + sum([len(message.codes) for message in within]) != last - first:
        return segment
    of_text = iter(text.codes[first:last])

    def with_data(code: Code) -> Code:
        if code.kind in ADDED:
            message = code.message
            return code._replace(
                message=message and message._replace(codes=tuple(map(with_data, message.codes)))
            )
        own = next(of_text)
        is_same = own.message is None and code.equiv == own.equiv
        return code._replace(data=own.data if is_same else code.data, pair=own.pair)

    return segment._replace(codes=tuple(map(with_data, segment.codes)))


@dataclass(slots=True)
class PreparedText:
    """One text of a request, `segmented` for the model of the first leg. It is None without a leg,
    if source and target language are the same."""

    number: int
    text: str
    detected: DetectedLanguage | None
    route: tuple[Leg, ...]
    segmented: SegmentedText | None


def prepare(
    request: TranslationRequest, catalog: ModelCatalog, detector: LanguageDetector
) -> list[PreparedText]:
    """Prepares the texts of a request. Raises the errors of `ModelCatalog.route`."""
    is_auto = request.source.strip().lower() == AUTO
    tagged = [_scanned(text, request, "" if is_auto else request.source) for text in request.texts]
    languages: list[tuple[DetectedLanguage | None, str | None]] = [(None, request.source)] * len(
        tagged
    )
    if is_auto:
        languages = _detected(tagged, request, catalog, detector)
    prepared = []
    routes: dict[str | None, tuple[Leg, ...]] = {None: ()}
    for number, (detected, source) in enumerate(languages):
        if (route := routes.get(source)) is None:
            route = catalog.route(
                source or "", request.target, request.formality, request.formality_required
            )
            routes[source] = route
        segmented = segment(tagged[number], route[0], request) if route else None
        prepared.append(PreparedText(number, request.texts[number], detected, route, segmented))
    return prepared


def _scanned(text: str, request: TranslationRequest, source: str) -> Tagged:
    if request.format == "html":
        return html.scan(text, source, request.markup.ignored, request.do_not_translate)
    if request.format == "xml":
        return xml.scan(text, request.markup, request.do_not_translate)
    tagged = coded_text.decoded(text) if request.format == "coded" else Tagged(text)
    return plain.scan(tagged, request.do_not_translate)


def segment(
    tagged: Tagged, leg: Leg, request: TranslationRequest, first: bool = True
) -> SegmentedText:
    """Cuts a text into segments for a leg. After the `first` leg the terms of the glossary are
    already translated, and are kept."""
    split = request.split or ("all" if request.format == "text" else "punctuation")
    glossary = (
        request.glossary if first or request.glossary is None else request.glossary.translations
    )
    return segment_tagged(tagged, leg, split, request.do_not_translate, glossary)


def _detected(
    texts: Sequence[Tagged],
    request: TranslationRequest,
    catalog: ModelCatalog,
    detector: LanguageDetector,
) -> list[tuple[DetectedLanguage | None, str | None]]:
    """Returns the detected language of each text and the source language of its route: None for a
    text without letters or in no served language, which is copied."""
    target = catalog.target(request.target)
    samples = [
        " ".join([part.text for part in text.passages()]) if text.codes else text.text
        for text in texts
    ]
    best = [guesses[0] for guesses in detector.detect_all(samples, target, request.accepted)]
    known = [guess.confidence and guess.language in catalog.known_sources for guess in best]
    return [
        (guess, guess.language if is_known else None)
        for guess, is_known in zip(best, known, strict=True)
    ]


def segment_text(text: str, leg: Leg) -> SegmentedText:
    return segment_tagged(plain.scan(Tagged(text)), leg)


def segment_tagged(
    tagged: Tagged,
    leg: Leg,
    split: Split = "all",
    kept: tuple[str, ...] = (),
    glossary: TermIndex | None = None,
) -> SegmentedText:
    """Cuts a text into encoded segments for a leg. The words of `kept` are not translated in the
    arms of messages."""
    cutter = _Cutter(leg, split, kept, glossary)
    parts = sentences.split(tagged, leg.source, split, glossary, leg.model.tokenizer)
    return _segmented(
        tagged, leg, chain.from_iterable(cutter.each(parts, leg.model.segment_length))
    )


def _segmented(tagged: Tagged, leg: Leg, placed: Iterable[_Placed]) -> SegmentedText:
    numbers: dict[Segment, int] = {}
    order, starts = [], []
    for start, segment in placed:
        order.append(numbers.setdefault(segment, len(numbers)))
        starts.append(start)
    return SegmentedText(tagged, leg, tuple(numbers), tuple(order), tuple(starts))


@dataclass(slots=True)
class _Cutter:
    """Makes segments of sentences for one leg."""

    leg: Leg
    split: Split
    kept: tuple[str, ...]
    glossary: TermIndex | None

    def each(self, parts: Sequence[sentences.Sentence], limit: int) -> Iterator[list[_Placed]]:
        """Yields the segments of each sentence, and the same segments for equal sentences."""
        made: dict[Hashable, list[_Placed]] = {}
        for sentence in parts:
            content = (sentence.tagged, sentence.terms) if len(parts) > 1 else None
            if (segments := made.get(content)) is None:
                segments = made[content] = self.segments(sentence, limit)
            yield [(sentence.start + at, segment) for at, segment in segments]

    def segments(self, sentence: sentences.Sentence, limit: int) -> list[_Placed]:
        """Returns the segments of a sentence with their places in it: one, or several of at most
        `limit` tokens if it is too long for the model."""
        leg, tagged = self.leg, sentence.tagged
        text = tagged.text
        if (
            len(text) > LONGEST_READ
            and len(parts := sentence.cut(range(len(text)), LONGEST_READ)) > 1
        ):
            return self._parts(parts, limit)
        segment = encoded(Segment(tagged, terms=sentence.terms), tagged, leg)
        if len(segment.ids) <= leg.model.segment_length:
            segment.messages = tuple(
                [self.message(code) for code in segment.tagged.codes if code.flows]
            )
            return [(0, segment)]
        long = [span for span in exact_tokens(text) if span.end - span.start >= LONG_CODE]
        if (masked := with_codes(segment, long, leg)) is not None:
            return self.segments(sentence._replace(tagged=masked.tagged), limit)
        encoding = leg.encode(text if tagged.codes else segment.read)
        # The language tag and the end of sentence, which every segment has, have empty offsets.
        starts = [offset[0] for offset in encoding.offsets if offset[1] > offset[0]]
        room = limit - (len(encoding.ids) - len(starts))
        if room < 1 or len(text) == 1:
            return [(0, Segment(tagged, terms=sentence.terms))]
        parts = sentence.cut(starts, room)
        # A part can have more tokens than it has within its sentence: then half the limit is used.
        finer = limit if len(parts) > 1 else limit // 2
        return self._parts(parts, finer)

    def _parts(self, parts: Sequence[sentences.Sentence], limit: int) -> list[_Placed]:
        """Returns the segments of the parts of one sentence, at their places in it."""
        cut = list(self.each(parts, limit))
        for first, second in pairwise(cut):
            if first and second and goes_on(first[-1][1].text, second[0][1].text):
                first[-1] = first[-1][0], replace(first[-1][1], unfinished=True)
                second[0] = second[0][0], replace(second[0][1], continues=True)
        return list(chain.from_iterable(cut))

    def message(self, code: Code) -> SegmentedText:
        """Returns the message of a code with its arms as segments."""
        message, kept = code.message or Tagged(""), (*self.kept, plain.NUMBER_SIGN)
        placed: list[_Placed] = []
        for start, end in code.flows:
            arm = plain.scan(message.cut(start, end), kept)
            cut = segment_tagged(arm, self.leg, self.split, kept, self.glossary).placed
            placed += [(start + at, segment) for at, segment in cut]
        return _segmented(message, self.leg, placed)


def with_codes(segment: Segment, further: Sequence[Match], leg: Leg) -> Segment | None:
    """Returns the segment with further codes that do not overlap its codes and terms in part; None
    if none is left."""
    tagged = segment.tagged
    taken = [(term.start, term.end) for term in segment.terms]
    # two words are no token
    taken += [(tagged.codes[number].start,) * 2 for number in segment.reading.apart]
    inside: list[Span] = []
    for code in tagged.codes:
        is_within = bool(code.word) and code.message is None and tagged.is_text(code)
        if code.start < code.end:
            (inside if is_within else taken).append((code.start, code.end))
    free = [
        span
        for span in further
        if not any(span.start < end and start < span.end for start, end in taken)
        and not any(_holds(part, (span.start, span.end)) for part in inside)
    ]
    codes = [
        Code(start, end, word=_WORDS[role], kind=MASKED, equiv=form or tagged.text[start:end])
        for start, end, role, _, form, _ in without_overlaps(free)
    ]
    return encoded(segment, sentences.with_codes(tagged, codes), leg) if codes else None


def _holds(code: Span, span: Span) -> bool:
    """Returns whether a code overlaps a span that does not contain it as a part."""
    apart = code[1] <= span[0] or span[1] <= code[0]
    return not apart and (code == span or not span[0] <= code[0] <= code[1] <= span[1])


def encoded(segment: Segment, tagged: Tagged, leg: Leg) -> Segment:
    """Returns the segment with the codes of `tagged` and the ids that the model reads. Without any
    words beside the codes it has no ids."""
    tokenizer = leg.model.tokenizer

    def with_reading(tagged: Tagged) -> Segment:
        if tagged.codes and any(code.word for code in tagged.codes):
            tagged = widened(tagged, bool(stand_ins_of(tokenizer).symbols))
        terms = _outside(segment.terms, tagged.codes) if segment.terms else ()
        reading = read(tagged, terms, tokenizer, leg.source)
        ids = leg.encode_ids(reading.text) if reading.text else ()
        flags = segment.small_first, segment.continues, segment.unfinished
        return Segment(tagged, ids, reading, segment.messages, terms, *flags)

    made = with_reading(tagged)
    if made.ids and (tokenizer.may_spell(made.ids) or may_lack(tagged.text, tokenizer, readable)):
        written = with_unwritable(tagged, tokenizer, readable)
        return made if written is tagged else with_reading(written)
    return made


def _outside(terms: Sequence[TermMatch], codes: Sequence[Code]) -> tuple[TermMatch, ...]:
    """Returns the terms that are not within a code."""
    spans = [(code.start, code.end) for code in codes if code.start < code.end]
    before = [bisect_left(spans, (term.end, 0)) for term in terms]
    return tuple(
        [
            term
            for term, n in zip(terms, before, strict=True)
            if not n or spans[n - 1][1] <= term.start
        ]
    )
