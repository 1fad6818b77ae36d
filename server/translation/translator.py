"""Translates requests, from the texts of a caller to the translated texts."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, chain, islice
from typing import Any

from model.search.options import DecodingOptions
from server.access.admission import Admission, RowShares
from server.engine.client.batch import Batch, Slices, gather_or_cancel
from server.engine.client.engine_client import EngineClient, InFlight
from server.engine.ipc.messages import JobResult
from server.errors import ModelFailed
from server.observability.metrics import Metrics
from server.store.history import (
    History,
    LegRecord,
    SentenceRecord,
    TranslationRecord,
    encoded,
    new_id,
)
from server.text.language_id import LanguageDetector
from server.text.tagged import Tagged
from server.translation import sentence
from server.translation.candidates import distinct_alternatives
from server.translation.catalog import AUTO, Leg, ModelCatalog
from server.translation.context import Draft, SentenceContext
from server.translation.preparation import PreparedText, Segment, SegmentedText, prepare, segment
from server.translation.result_cache import ResultCache
from server.translation.types import (
    FAULTS,
    ProgressListener,
    Sentence,
    TranslatedLeg,
    Translation,
    TranslationRequest,
)
from server.work_threads import Result, Turns, WorkThreads

DOCUMENT_ROWS, DOCUMENT_COST, DOCUMENT_CHARACTERS = 32, 2_000, 2_000
"""A request with more sentences times beam width, tokens times rows, or characters is a document,
which is served after short requests."""
_LOOK_ROWS = 2.0
"""Most rows that the attention of a sentence counts as. The measured price of attention is too high
where other requests have long sentences."""
BYTES_PER_TOKEN = 4
"""For the estimate of a request's cost before tokenizing."""
EXACT_ENGINE = "native"
"""The engine whose forced pass is bit for bit what the decode saw (`WorkerReady.engine`)."""
THREAD_CHARACTERS = 2_000
"""Work on more characters runs in a thread."""


class Translator:
    """Translates requests with the models of a catalog, which can be replaced at any time: a
    request keeps the catalog it began with. `history` and `cache` are optional, `threads` run the
    long functions of all requests. Belongs to one event loop."""

    def __init__(
        self,
        engine: EngineClient,
        catalog: ModelCatalog,
        detector: LanguageDetector,
        admission: Admission,
        history: History | None,
        metrics: Metrics,
        cache: ResultCache | None = None,
    ) -> None:
        self.engine = engine
        self.catalog = catalog
        self.detector = detector
        self.admission = admission
        self.history = history
        self.cache = cache
        self._metrics = metrics
        self.threads = WorkThreads(engine.turns)
        self._turns = Turns()
        self._shares = RowShares()
        self._translate_sentence = partial(sentence.translate_sentence, self._shares)
        self._users: Counter[ModelCatalog] = Counter()
        self._released: dict[ModelCatalog, asyncio.Event] = {}

    async def translate(
        self, request: TranslationRequest, listener: ProgressListener | None = None
    ) -> list[Translation]:
        """Returns one translation per text, in order. Raises UnsupportedLanguage, InvalidRequest,
        Overloaded, TimeoutError, Unavailable or TranslationFailed."""
        cache, catalog, computation = self.cache, self.catalog, self.engine.workers.computation
        if cache is None or not computation or request.storage == "none":
            return await self._translate(request, listener)
        keys = cache.keys(request, catalog, computation)
        cached: dict[int, Translation] = {}
        if request.storage == "use":  # what is translated together is cached together
            together = listener is not None or request.source.strip().lower() == AUTO
            cached = await cache.find(keys, together=together)
        missing = [number for number in range(len(keys)) if number not in cached]
        done: list[Translation] = []
        if missing:
            current = self.catalog is catalog  # it may have been replaced while the cache was read
            texts = tuple([request.texts[number] for number in missing])
            remaining = dataclasses.replace(request, texts=texts) if cached else request
            done = await self._translate(remaining, listener)
            if current and self.engine.workers.computation == computation:
                cache.add([keys[number] for number in missing], done)
        cache.note(request.key)
        slices = Slices()
        for number in sorted(cached):
            done.insert(number, await self._repeated(number, cached[number], request, listener))
            await slices.next()
        return done

    async def _repeated(
        self,
        number: int,
        translation: Translation,
        request: TranslationRequest,
        listener: ProgressListener | None,
    ) -> Translation:
        """Returns a translation from the cache under a new id, and reports it."""
        answer = dataclasses.replace(translation, id=new_id(), cached=True)
        await self._record(answer, request)
        if listener is not None:
            for position, sentence in enumerate(answer.legs[-1].sentences if answer.legs else ()):
                listener.on_sentence(number, position, sentence)
        return answer

    async def _record(
        self, translation: Translation, request: TranslationRequest, size: int = 0
    ) -> None:
        """Adds a translation to the history if the request allows it."""
        if self.history is not None and request.remember and request.storage != "none":
            data = await self.work(
                request.client, size, lambda: encoded(history_record(translation))
            )
            self.history.add(translation.id, data)

    async def _translate(
        self, request: TranslationRequest, listener: ProgressListener | None
    ) -> list[Translation]:
        """Admits a request, prepares its texts and translates them."""
        key = request.key
        if key is None:
            key = hash(
                (request.client, request.source, request.target, request.texts, request.options)
            )
        characters = sum(map(len, request.texts))
        tokens = sum(map(token_estimate, request.texts))
        catalog = self.catalog
        chosen = catalog if request.model is None else catalog.only(request.model)
        searched = best = chosen.searched(request.source, request.target, request.options)
        if request.best is not request.options:
            best = chosen.searched(request.source, request.target, request.best)
        beam = searched.beam_size
        price, look_price = self.admission.lease.prices
        forms = sentence.declared(request, searched, best)
        cost = round(tokens * self._shares.rows(forms, min(_LOOK_ROWS, 2 * look_price / price)))
        document = characters > DOCUMENT_CHARACTERS or cost > DOCUMENT_COST or beam > DOCUMENT_ROWS
        if not document:
            self.engine.turns.note_short()
        with (
            self.admission.admit(
                cost,
                request.deadline,
                caller=request.client,
                weight=request.weight,
                kind="document" if document else "short",
                key=key,
            ),
            self._using(catalog),
        ):
            async with asyncio.timeout_at(request.deadline):
                await self._turns.next(request.client)
                texts = await self.work(
                    request.client, characters, prepare, request, chosen, self.detector
                )
                rows = beam * sum([len(text.segmented.order) for text in texts if text.segmented])
                document = document or rows > DOCUMENT_ROWS
                return await self._translate_texts(texts, request, int(document), listener, catalog)

    async def work(
        self, caller: str, characters: int, function: Callable[..., Result], *arguments: object
    ) -> Result:
        """Returns the result of a function, which runs in a thread for many characters."""
        if characters <= THREAD_CHARACTERS:
            return function(*arguments)
        return await self.threads.run(caller, characters, function, *arguments)

    async def released(self, catalog: ModelCatalog) -> None:
        """Waits until no request uses a replaced catalog."""
        if self._users[catalog]:
            self._released[catalog] = asyncio.Event()
            await self._released[catalog].wait()

    @contextmanager
    def _using(self, catalog: ModelCatalog) -> Iterator[None]:
        self._users[catalog] += 1
        try:
            yield
        finally:
            self._users[catalog] -= 1
            if not self._users[catalog]:
                del self._users[catalog]
                if event := self._released.pop(catalog, None):
                    event.set()

    async def _translate_texts(
        self,
        prepared: Sequence[PreparedText],
        request: TranslationRequest,
        priority: int,
        listener: ProgressListener | None,
        catalog: ModelCatalog,
    ) -> list[Translation]:
        """Translates texts, those of each route together. Where a model of `catalog` cannot be
        loaded, they are prepared again with the present catalog."""
        routes: dict[int, list[PreparedText]] = {}
        for text in prepared:
            routes.setdefault(id(text.route), []).append(text)
        if len(routes) > 1:
            each = [
                self._translate_texts(texts, request, priority, listener, catalog)
                for texts in routes.values()
            ]
            numbers = [text.number for texts in routes.values() for text in texts]
            done = dict(zip(numbers, chain(*await gather_or_cancel(each)), strict=True))
            return [done[text.number] for text in prepared]
        try:
            return await self._translate_legs(prepared, request, priority, listener)
        except ModelFailed:
            current = self.catalog
            if current is catalog:
                raise
        with self._using(current):
            some = dataclasses.replace(request, texts=tuple([text.text for text in prepared]))
            chosen = current if request.model is None else current.only(request.model)
            size = sum(map(len, some.texts))
            again = await self.work(request.client, size, prepare, some, chosen, self.detector)
            again = [
                dataclasses.replace(each, number=text.number)
                for each, text in zip(again, prepared, strict=True)
            ]
            return await self._translate_texts(again, request, priority, listener, current)

    async def _translate_legs(
        self,
        prepared: Sequence[PreparedText],
        request: TranslationRequest,
        priority: int,
        listener: ProgressListener | None,
    ) -> list[Translation]:
        """Translates texts of one route leg by leg and records the translations."""
        route = prepared[0].route
        legs: list[list[TranslatedLeg]] = [[] for _ in prepared]
        joined: list[Tagged] = []
        ranked: list[list[str]] = [[text.text] for text in prepared]
        parts = [text.segmented for text in prepared if text.segmented]
        for number, leg in enumerate(route):
            if number:
                parts = [
                    await self.work(
                        request.client, len(text.text), segment, tagged, leg, request, False
                    )
                    for text, tagged in zip(prepared, joined, strict=True)
                ]
            # only the last leg has alternatives: each one of an earlier leg would need a second leg
            last = number == len(route) - 1
            leg_request = request
            if len(route) > 1:  # a flagged sentence is not replaced by one in the pivot language
                options = request.options if last else request.best
                on_flag = "mark" if request.on_flag == "source" else request.on_flag
                leg_request = dataclasses.replace(request, options=options, on_flag=on_flag)
            decoding = leg.decoding_options(leg_request.options)
            best = leg.decoding_options(leg_request.best)
            drafts = await self._drafts(
                prepared, parts, leg_request, (decoding, best), priority, listener if last else None
            )
            slices = Slices()  # after the wait, which is no work
            joined, ranked, computation = [], [], " ".join(self.engine.workers.computation)
            for known, part, own in zip(legs, parts, drafts, strict=True):
                size, hypotheses = len(part.tagged.text), leg_request.options.hypotheses
                tagged, written, sentences = await self.work(
                    request.client, size, _translated, part, own, hypotheses
                )
                joined.append(tagged)
                ranked.append(written)
                known.append(
                    TranslatedLeg(
                        leg.model.name, leg.model.key, leg.source, leg.target, written[0],
                        sentences, decoding.beam_size, best.rerank, computation,
                    )
                )  # fmt: skip
                await slices.next()
        translations, slices = list[Translation](), Slices()
        for text, known, texts in zip(prepared, legs, ranked, strict=True):
            first, *others = texts
            if request.on_flag == "source" and len(known) > 1:
                flagged = any(each.flags & FAULTS for leg in known for each in leg.sentences)
                first, others = (text.text, []) if flagged else (first, others)
            alternatives = distinct_alternatives(first, others) if others else ()
            done = Translation(new_id(), first, alternatives, text.detected, tuple(known))
            await self._record(done, request, len(text.text))
            translations.append(done)
            await slices.next()
        return translations

    async def _drafts(
        self,
        prepared: Sequence[PreparedText],
        parts: Sequence[SegmentedText],
        request: TranslationRequest,
        options: tuple[DecodingOptions, DecodingOptions],
        priority: int,
        listener: ProgressListener | None,
    ) -> list[list[Draft]]:
        """Returns the translated sentences of each text in one leg. `options` are those for all
        hypotheses, and for the best one."""
        leg, declared = parts[0].leg, sentence.declared(request, *options)
        segments = [each for part in parts for each in part.segments]
        starts = accumulate([len(part.segments) for part in parts], initial=0)
        orders: list[list[int]] = []
        for start, part in zip(starts, parts, strict=False) if listener else ():
            orders.append([start + number for number in part.order])
        places = {
            number: (n, place)
            for n, order in enumerate(orders)
            for place, number in [*enumerate(order)][::-1]
        }
        contexts: list[SentenceContext] = []

        def context(segment: Segment) -> SentenceContext:
            on_progress = None
            if listener is not None and listener.on_tokens is not None:
                n, place = places[len(contexts)]
                on_progress = _token_progress(
                    listener.on_tokens, prepared[n].number, place, segment, leg
                )
            return SentenceContext(
                segment, leg, request, *options, priority, self._translate_sentence, self.engine, self.detector,
                self._metrics, declared, on_progress,
            )  # fmt: skip

        def send(number: int) -> InFlight | None:
            contexts.append(made := context(segments[number]))
            return made.send(loaded) if made.segment.ids else None

        def finish(number: int, answer: JobResult | None) -> Coroutine[Any, Any, Draft]:
            made = contexts[number]
            made.first = answer
            return made.translate(made)

        def report(text: int, place: int, draft: Draft) -> None:
            if listener is not None:
                listener.on_sentence(prepared[text].number, place, draft.sentence())

        async with self.engine.holding(leg.model) as loaded:
            if len(segments) == 1 and listener is None:
                only = context(segments[0])
                if only.segment.ids:
                    only.first = await self.engine.receive(only.send(loaded), priority)
                return [[await only.translate(only)]]
            batch = Batch(
                self.engine, len(segments), send, finish, report if listener else None, orders
            )
            drafts = iter(await batch.run(self.engine.turns if priority else None))
        return [list(islice(drafts, len(part.segments))) for part in parts]


def history_record(translation: Translation) -> TranslationRecord:
    """Returns the record of a translation: token ids and decoding options, no text."""
    legs = []
    for leg in translation.legs:
        distinct = leg.distinct
        common = next((_search(each.options) for each in distinct if each.options), None)
        exact = leg.computation.endswith(EXACT_ENGINE)
        records = {id(each): _sentence_record(each, common, exact) for each in distinct}
        sentences = tuple([records[id(each)] for each in leg.sentences])
        legs.append(LegRecord(leg.key, leg.source, leg.target, sentences, leg.computation, common))
    return TranslationRecord(translation.id, time.time(), tuple(legs))


def _sentence_record(
    sentence: Sentence, common: DecodingOptions | None, exact: bool
) -> SentenceRecord:
    """Returns the record of a sentence. Options that equal `common` are left out, and so are scores
    if a forced pass repeats them exactly (`exact`)."""
    record = SentenceRecord(
        sentence.read or sentence.source,
        sentence.ids,
        typed=sentence.source if _differs_in_case(sentence) else "",
        originals=sentence.originals,
    )
    if sentence.hypotheses:
        best = sentence.hypotheses[0]
        record.target = best.tokens
        record.ended = best.finish_reason == "length" and len(best.token_scores) > len(best.tokens)
        record.scores = () if exact else best.token_scores
    if (options := sentence.options) is not None:
        record.forced = len(options.prefix if options.target is None else options.target)
        own = _search(options)
        record.options = None if own is common or own == common else own
    return record


def _search(options: DecodingOptions) -> DecodingOptions:
    """Returns the options without the forced tokens."""
    is_free = not options.prefix and options.target is None
    return options if is_free else dataclasses.replace(options, prefix=(), target=None)


def _differs_in_case(sentence: Sentence) -> bool:
    """Returns whether the model read the letters of the source in another case."""
    source, read = sentence.source, sentence.read
    return read not in ("", source) and len(read) == len(source) and read.lower() == source.lower()


def token_estimate(text: str) -> int:
    """Returns the approximate number of tokens of a text."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 2


def _translated(
    segmented: SegmentedText, drafts: Sequence[Draft], hypotheses: int
) -> tuple[Tagged, list[str], tuple[Sentence, ...]]:
    """Returns the text of the best hypotheses with its codes, the written texts by rank, and the
    sentences in order. A sentence with fewer hypotheses repeats its last one."""
    joined = [
        segmented.join([each.finished[min(rank, len(each.finished) - 1)] for each in drafts])
        for rank in range(hypotheses)
    ]
    sentences = [each.sentence() for each in drafts]
    written = [each.write() for each in joined]
    return joined[0], written, tuple([sentences[number] for number in segmented.order])


def _token_progress(
    on_tokens: Callable[[int, int, str], None],
    number: int,
    position: int,
    segment: Segment,
    leg: Leg,
) -> Callable[[tuple[int, ...]], None]:
    """Returns a function that reports the translation of a segment so far."""
    decode, reading = leg.model.tokenizer.decode, segment.reading
    return lambda tokens: on_tokens(number, position, reading.with_originals(decode(tokens)))
