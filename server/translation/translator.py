"""Text to text: cut into sentences, encoded, sent to the worker, put together again. What every route and command
calls."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from server.access.admission import Admission
from server.engine.client.engine_client import EngineClient
from server.engine.client.single_flight import Waiter
from server.engine.ipc.messages import TranslationResult
from server.errors import InvalidRequest
from server.history.memory import History
from server.history.records import new_id
from server.text.html_passages import Passage, parse_passages
from server.text.language_id import DetectedLanguage, LanguageDetector
from server.text.markup_projection import Link
from server.text.segmentation import Split
from server.translation.catalog import AUTO, Leg, ModelCatalog
from server.translation.history_record import history_record
from server.translation.preprocessing import SegmentedText, segment_text
from server.translation.sentence_translator import SentenceTranslator, copied_sentence
from server.translation.time_limit import time_limit
from server.translation.types import Sentence, TranslatedLeg, Translation, TranslationRequest

DOCUMENT_SENTENCES = 16
"""A request of more sentences is a document: it goes in the gaps that short requests leave."""
CHARACTERS_PER_TOKEN = 4
DOCUMENT_CHARACTERS = 2_000
"""What a text will cost is guessed from its characters, so that who is refused costs nothing but the guess."""
THREAD_CHARACTERS = 2_000
"""Longer texts are cut and encoded off the event loop, so that they do not hold up everybody else's answers."""

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class ProgressListener:
    """Told about the parts of an answer as they come, in order: `on_sentence(text, number, sentence)`, counted from 0,
    and where it is set `on_tokens(text, number, target so far)`. Only the last leg of a route is told about."""

    on_sentence: Callable[[int, int, Sentence], None]
    on_tokens: Callable[[int, int, str], None] | None = None


@dataclass(frozen=True, slots=True)
class _Prepared:
    """One text before its first leg; `passages` and `plans` belong to that leg and are empty where there is none."""

    number: int
    text: str
    detected: DetectedLanguage | None
    route: tuple[Leg, ...]
    passages: tuple[Passage, ...]
    plans: tuple[SegmentedText, ...]


class Translator:
    """Translates requests on the workers of one supervisor.

    `catalog` may be replaced at any time; requests under way keep the one they began with. `history` None remembers
    nothing. Every method belongs to one event loop.
    """

    def __init__(
        self,
        engine: EngineClient,
        catalog: ModelCatalog,
        detector: LanguageDetector,
        admission: Admission,
        history: History | None,
    ) -> None:
        self.engine = engine
        self.catalog = catalog
        self.detector = detector
        self.admission = admission
        self.history = history
        self.sentences = SentenceTranslator(engine)
        self._users: Counter[ModelCatalog] = Counter()
        self._released: dict[ModelCatalog, asyncio.Event] = {}

    async def translate(self, request: TranslationRequest, listener: ProgressListener | None = None) -> list[Translation]:
        """One translation per text, in order. Cancelling the call cancels what only it was waiting for.

        Raises UnsupportedLanguage, Overloaded (before any work is done), DeadlineExceeded, Unavailable,
        TranslationFailed.
        """
        key = hash((request.client, request.source, request.target, request.texts, request.options))
        characters = sum(map(len, request.texts))
        about = request.options.beam_size * (1 + characters // CHARACTERS_PER_TOKEN)
        self.admission.check(about, document=characters > DOCUMENT_CHARACTERS, key=key)
        catalog = self.catalog
        self._users[catalog] += 1
        try:
            async with time_limit(request.deadline):
                if characters > THREAD_CHARACTERS:
                    prepared = await asyncio.to_thread(self._prepare, request, catalog)
                else:
                    prepared = self._prepare(request, catalog)
                plans = [(part, len(text.route)) for text in prepared for part in text.plans]
                cost = request.options.beam_size * sum(part.tokens * legs for part, legs in plans)
                priority = int(sum(len(part.segments) for part, _ in plans) > DOCUMENT_SENTENCES)
                with self.admission.admit(cost, request.deadline, document=priority > 0, key=key):
                    return await gather_or_cancel([self._translate(text, request, priority, listener) for text in prepared])
        finally:
            self._left(catalog)

    def detect(self, text: str) -> list[DetectedLanguage]:
        """Languages that a text may be in, best first."""
        return self.detector.detect(text)

    async def released(self, catalog: ModelCatalog) -> None:
        """Returns when no request uses a catalog any more that was replaced."""
        if self._users[catalog]:
            self._released[catalog] = asyncio.Event()
            await self._released[catalog].wait()

    def _left(self, catalog: ModelCatalog) -> None:
        self._users[catalog] -= 1
        if not self._users[catalog]:
            del self._users[catalog]
            if event := self._released.pop(catalog, None):
                event.set()

    def _prepare(self, request: TranslationRequest, catalog: ModelCatalog) -> list[_Prepared]:
        target = catalog.target(request.target)
        prepared = []
        for number, text in enumerate(request.texts):
            detected, source = self._source(text, request, catalog, target)
            route = catalog.route(source, target)
            passages = parse_passages(text, request.format) if route else ()
            plans = tuple(segment_text(passage.text, route[0], split_mode(request)) for passage in passages)
            prepared.append(_Prepared(number, text, detected, route, passages, plans))
        return prepared

    def _source(
        self, text: str, request: TranslationRequest, catalog: ModelCatalog, target: str
    ) -> tuple[DetectedLanguage | None, str]:
        if request.source.strip().lower() != AUTO:
            return None, catalog.source(request.source)
        plain = text if request.format == "text" else " ".join(passage.text for passage in parse_passages(text, request.format))
        guesses = self.detector.detect(plain)
        if not guesses:
            raise InvalidRequest("The language cannot be detected here; name it in source.")
        if guesses[0].confidence == 0:  # no word of any served language: nothing to translate, so it stays as it is
            return guesses[0], target
        return guesses[0], catalog.source(guesses[0].language)

    async def _translate(
        self, prepared: _Prepared, request: TranslationRequest, priority: int, listener: ProgressListener | None
    ) -> Translation:
        text = prepared.text
        alternatives: tuple[str, ...] = ()
        legs: list[TranslatedLeg] = []
        passages, plans = prepared.passages, prepared.plans
        for i, leg in enumerate(prepared.route):
            last = i == len(prepared.route) - 1
            if i > 0:
                passages = parse_passages(text, request.format)
                plans = tuple([segment_text(passage.text, leg, split_mode(request)) for passage in passages])
            # Alternatives are those of the last leg: an alternative in the pivot language would need a leg of its own.
            step = request if last else without_alternatives(request)
            told = listener if last else None
            async with self.engine.holding(leg.model):
                sentences = await self._sentences(plans, step, priority, prepared.number, told)
                known = [
                    await self.sentences.aligner.links(part, found, passage.boundaries) if passage.marks else ()
                    for passage, part, found in zip(passages, plans, sentences, strict=True)
                ]
            text, *others = join_translations(passages, plans, sentences, known, step.options.hypotheses)
            alternatives = tuple(dict.fromkeys(other for other in others if other != text))
            flat = tuple(sentence for passage in sentences for sentence in passage)
            legs.append(TranslatedLeg(leg.model.name, leg.model.key, leg.source, leg.target, text, flat))
        translation = Translation(new_id(), text, alternatives, prepared.detected, tuple(legs))
        if self.history is not None and request.remember:
            self.history.add(history_record(translation))
        return translation

    async def _sentences(
        self,
        plans: Sequence[SegmentedText],
        request: TranslationRequest,
        priority: int,
        number: int,
        listener: ProgressListener | None,
    ) -> list[list[Sentence]]:
        """The sentences of each plan. All go to the worker at once; they are awaited, and told about, in order."""
        waiters: list[Waiter[TranslationResult] | None] = []
        try:
            for segmented in plans:
                for segment in segmented.segments:
                    told = self._progress(listener, number, len(waiters), segmented)
                    waiter = self.sentences.send(segment, segmented.leg, request, priority, told) if segment.ids else None
                    waiters.append(waiter)
            done: list[list[Sentence]] = []
            position = 0
            for segmented in plans:
                done.append([])
                for segment in segmented.segments:
                    waiter = waiters[position]
                    if waiter is None:
                        sentence = copied_sentence(segment)
                    else:
                        answer = await waiter.result()
                        sentence = await self.sentences.sentence(segment, segmented.leg, answer, request, priority)
                    done[-1].append(sentence)
                    if listener is not None:
                        listener.on_sentence(number, position, sentence)
                    position += 1
            return done
        finally:
            for waiter in waiters:
                if waiter is not None:
                    waiter.leave()

    def _progress(
        self, listener: ProgressListener | None, number: int, position: int, segmented: SegmentedText
    ) -> Callable[[tuple[int, ...]], None] | None:
        if listener is None or (tell := listener.on_tokens) is None:
            return None
        tokenizer = segmented.leg.model.tokenizer
        return lambda tokens: tell(number, position, tokenizer.decode(tokens))


async def gather_or_cancel(coroutines: Sequence[Coroutine[Any, Any, Outcome]]) -> list[Outcome]:
    """All results in order. The first exception, or being cancelled, cancels the rest and waits for their end."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def join_translations(
    passages: Sequence[Passage],
    plans: Sequence[SegmentedText],
    sentences: Sequence[Sequence[Sentence]],
    links: Sequence[Sequence[Link]],
    hypotheses: int,
) -> list[str]:
    """The whole text for the best hypotheses, the second best and so on; a sentence with fewer gives its last.

    `links` are about the best ones; markup in the others keeps its relative place.
    """
    texts = []
    for rank in range(hypotheses):
        parts = []
        for passage, part, found, known in zip(passages, plans, sentences, links, strict=True):
            targets = [sentence.targets[min(rank, len(sentence.targets) - 1)] for sentence in found]
            parts.append(passage.render(part.join(targets), known if rank == 0 else ()))
        texts.append("".join(parts))
    return texts


def without_alternatives(request: TranslationRequest) -> TranslationRequest:
    """The same request without alternatives."""
    return dataclasses.replace(request, options=dataclasses.replace(request.options, hypotheses=1))


def split_mode(request: TranslationRequest) -> Split:
    """Where the texts of a request are cut."""
    return request.split or ("punctuation" if request.format == "html" else "all")
