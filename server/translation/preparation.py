"""Prepares texts for translation: detects the language, finds the route, parses HTML, cuts passages into segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.symbols import FORMAL, INFORMAL
from server.errors import InvalidRequest
from server.text.language_id import DetectedLanguage, LanguageDetector
from server.text.markup.passages import Passage, parse_passages
from server.text.protection.find import term_pattern
from server.translation.catalog import AUTO, Leg, ModelCatalog
from server.translation.segments import SegmentedText, segment_text
from server.translation.types import TranslationRequest

NO_FORMALITY = (
    "'formality' is not supported for given 'target_lang'; prefer_more and prefer_less pass without an effect."
)


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
    kept = term_pattern(request.do_not_translate)
    glossary = request.glossary if first or request.glossary is None else request.glossary.translations
    return tuple([segment_text(passage.text, leg, split, kept, glossary) for passage in passages])


def _source(guesses: Sequence[DetectedLanguage], catalog: ModelCatalog, target: str) -> tuple[DetectedLanguage, str]:
    """Returns the detected language and the served source language for it. A text that is in no served language, or has
    no letters, is copied: its source is the target."""
    if not guesses:
        raise InvalidRequest("The language cannot be detected here; name it in source.")
    if guesses[0].confidence == 0 or guesses[0].language not in catalog.sources:
        return guesses[0], target
    return guesses[0], catalog.source(guesses[0].language)
