"""Prepares texts for translation: detects the language, finds the route, parses HTML, and cuts passages into segments for
one model: sentences, or parts of sentences that are too long for it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from server.text.language_id import DetectedLanguage, LanguageDetector
from server.text.markup.passages import Passage, parse_passages
from server.text.protection.copied import byte_fallback_spans, copied_spans, without_overlaps
from server.text.protection.find import NUMBER_SIGN, ProtectedSpan
from server.text.protection.glossary import TermIndex, TermMatch
from server.text.protection.mask import Masked, mask_sentence
from server.text.protection.messages import MessageParser
from server.text.protection.sentences import ProtectedSentence, protected_sentences
from server.text.segmentation import Split, goes_on
from server.translation.catalog import AUTO, Leg, ModelCatalog
from server.translation.types import TranslationRequest

LONGEST_READ = 5_000
"""Characters of a sentence that are encoded at once. A longer one is too long for any model."""
LONG_CODE = 40
"""Characters of a code that is masked before its sentence would be cut within it."""


@dataclass(slots=True, eq=False)
class Segment:
    """One sentence, or a part of one that is too long for the model. A segment without ids is copied.

    `masked` is what the model reads, encoded as `ids`: the segment's text without its protected `spans`, with a small
    first letter if `small_first`. `messages` are the ICU messages among the spans. `terms` are those of the glossary. The
    sentence goes on before the segment if it `continues` and after it if it is `unfinished`.
    """

    text: str
    ids: tuple[int, ...] = ()
    masked: Masked = Masked()
    spans: tuple[ProtectedSpan, ...] = ()
    messages: tuple[SegmentedText, ...] = ()
    terms: tuple[TermMatch, ...] = ()
    small_first: bool = False
    continues: bool = False
    unfinished: bool = False

    @property
    def read(self) -> str:
        """The text that the model reads."""
        return self.masked.read

    @property
    def content(self) -> Hashable:
        """What the translation depends on: it is equal for segments that are translated once."""
        return self.text, self.ids, self.spans, self.terms, self.continues, self.unfinished


_Placed = tuple[int, Segment]
"""The start of a segment in a text, and the segment."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentedText:
    """A text as segments. One at several places is there once, in the order of their first places: at `starts[i]` is the
    segment number `order[i]`. The text between two segments is copied."""

    text: str
    leg: Leg
    segments: tuple[Segment, ...]
    order: tuple[int, ...]
    starts: tuple[int, ...]

    @property
    def placed(self) -> list[_Placed]:
        """The segments at their places, in order."""
        return [(start, self.segments[number]) for start, number in zip(self.starts, self.order, strict=True)]

    def join(self, targets: Sequence[str]) -> str:
        """Returns the text with each segment replaced by its target."""
        parts: list[str] = []
        done = 0
        for start, number in zip(self.starts, self.order, strict=True):
            parts += self.text[done:start], targets[number]
            done = start + len(self.segments[number].text)
        return "".join((*parts, self.text[done:]))


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
    """Prepares the texts of a request. Raises UnsupportedLanguage, or InvalidRequest where a route does."""
    parsed = [parse_passages(text, request.format) for text in request.texts]
    if request.source.strip().lower() == AUTO:
        languages = _detected(parsed, request, catalog, detector)
    else:
        languages = [(None, request.source)] * len(parsed)
    prepared = []
    for number, (detected, source) in enumerate(languages):
        route: tuple[Leg, ...] = ()
        if source is not None:
            route = catalog.route(source, request.target, request.formality, request.formality_required)
        passages = parsed[number] if route else ()
        segmented = segment_passages(passages, route[0], request) if route else ()
        prepared.append(PreparedText(number, request.texts[number], detected, route, passages, segmented))
    return prepared


def segment_passages(
    passages: Sequence[Passage], leg: Leg, request: TranslationRequest, first: bool = True
) -> tuple[SegmentedText, ...]:
    """Cuts the passages of a text into the segments that the leg's model translates. If the leg is not the `first`, the
    terms of the glossary are already translated, and are kept."""
    split = request.split or ("punctuation" if request.format == "html" else "all")
    glossary = request.glossary if first or request.glossary is None else request.glossary.translations
    kept = request.do_not_translate
    texts = [passage.text for passage in passages]
    made = {text: segment_text(text, leg, split, kept, glossary) for text in dict.fromkeys(texts)}
    return tuple([made[text] for text in texts])


def _detected(
    parsed: Sequence[Sequence[Passage]], request: TranslationRequest, catalog: ModelCatalog, detector: LanguageDetector
) -> list[tuple[DetectedLanguage | None, str | None]]:
    """Returns the detected language of each text, and the one that it is translated from. A text that is in no served
    language, or has no letters, is copied."""
    target = catalog.target(request.target)
    samples = [" ".join([passage.text for passage in passages]) for passages in parsed]
    best = [guesses[0] for guesses in detector.detect_all(samples, target, request.accepted)]
    return [
        (guess, guess.language if guess.confidence and guess.language in catalog.known_sources else None)
        for guess in best
    ]


def segment_text(
    text: str,
    leg: Leg,
    split: Split = "all",
    kept: tuple[str, ...] = (),
    glossary: TermIndex | None = None,
) -> SegmentedText:
    """Cuts a text into segments that the leg's model can read, and encodes them. The words of `kept` are not translated,
    in addition to the spans that are always protected."""
    model, cutter = leg.model, _Cutter(leg, split, kept, glossary)
    sentences = protected_sentences(text, leg.source, split, kept, glossary, model.tokenizer)
    return _segmented(text, leg, chain.from_iterable(cutter.each(sentences, model.segment_length)))


def _segmented(text: str, leg: Leg, placed: Iterable[_Placed]) -> SegmentedText:
    numbers: dict[Segment, int] = {}
    order, starts = [], []
    for start, segment in placed:
        order.append(numbers.setdefault(segment, len(numbers)))
        starts.append(start)
    return SegmentedText(text, leg, tuple(numbers), tuple(order), tuple(starts))


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Makes segments of sentences for one leg."""

    leg: Leg
    split: Split
    kept: tuple[str, ...]
    glossary: TermIndex | None

    def each(self, sentences: Sequence[ProtectedSentence], limit: int) -> Iterator[list[_Placed]]:
        """Yields the segments of each sentence. Equal sentences share theirs."""
        made: dict[Hashable, list[_Placed]] = {}
        for sentence in sentences:
            content = sentence.text, tuple(sentence.spans), tuple(sentence.terms)
            if (segments := made.get(content)) is None:
                segments = made[content] = self.segments(sentence, limit)
            yield [(sentence.start + at, segment) for at, segment in segments]

    def segments(self, sentence: ProtectedSentence, limit: int) -> list[_Placed]:
        """Returns a sentence as one segment, or as several of at most `limit` tokens if it is too long for the model, with
        their places in the sentence."""
        leg, text, spans = self.leg, sentence.text, sentence.spans
        if sentence.is_message:
            return self.message(text).placed
        if len(text) > LONGEST_READ and len(parts := sentence.cut(range(len(text)), LONGEST_READ)) > 1:
            return self._parts(parts, limit)
        segment = _encoded(Segment(text, terms=tuple(sentence.terms)), spans, leg)
        if len(segment.ids) <= leg.model.segment_length:
            messages = dict.fromkeys([text[span.start : span.end] for span in spans if span.role == "icu"])
            segment.messages = tuple(map(self.message, messages))
            if not leg.model.tokenizer.may_spell(segment.ids):
                return [(0, segment)]
            return [(0, with_spans(segment, byte_fallback_spans(text, leg.source, leg.encode(text)), leg) or segment)]
        long = [span for span in copied_spans(text) if span.end - span.start >= LONG_CODE]
        if (masked := with_spans(segment, long, leg)) is not None:
            return self.segments(replace(sentence, spans=masked.spans), limit)
        encoding = leg.encode(text if spans else segment.read)
        # The language tag and the end of sentence have empty offsets. They are part of every segment and reduce its
        # limit.
        starts = [offset[0] for offset in encoding.offsets if offset[1] > offset[0]]
        room = limit - (len(encoding.ids) - len(starts))
        if room < 1 or len(text) == 1:
            return [(0, Segment(text, terms=tuple(sentence.terms)))]
        parts = sentence.cut(starts, room)
        # A part can have more tokens on its own than within its sentence. It is then cut again with half the limit.
        finer = limit if len(parts) > 1 else limit // 2
        return self._parts(parts, finer)

    def _parts(self, parts: Sequence[ProtectedSentence], limit: int) -> list[_Placed]:
        """Returns the segments of the parts of one sentence, at their places in it."""
        cut = list(self.each(parts, limit))
        for first, second in pairwise(cut):
            if first and second and goes_on(first[-1][1].text, second[0][1].text):
                first[-1] = first[-1][0], replace(first[-1][1], unfinished=True)
                second[0] = second[0][0], replace(second[0][1], continues=True)
        return list(chain.from_iterable(cut))

    def message(self, text: str) -> SegmentedText:
        """Returns an ICU message with its arms as segments."""
        kept = (*self.kept, NUMBER_SIGN)
        message = MessageParser(text).parse(0)
        placed = [
            (start + at, segment)
            for start, end in (message.arms if message else ())
            for at, segment in segment_text(text[start:end], self.leg, self.split, kept, self.glossary).placed
        ]
        return _segmented(text, self.leg, placed)


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
    masked, spans = mask_sentence(segment.text, spans, segment.terms, leg.model.tokenizer, leg.source)
    ids = leg.encode_ids(masked.read) if masked.read else ()
    return replace(segment, ids=ids, masked=masked, spans=tuple(spans))
