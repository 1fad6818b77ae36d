"""Sends the segments of a text to the workers and turns the answers into sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from server.engine.client.engine_client import EngineClient
from server.engine.client.single_flight import Waiter
from server.engine.ipc.messages import TranslationResult
from server.errors import InvalidRequest
from server.text.number_format import localize_numbers
from server.text.protection.terms import with_translated_terms
from server.text.translation_checks import ordinary_words
from server.translation.alignment import WordAligner
from server.translation.catalog import Leg
from server.translation.passes.checks import CheckObserver, SentenceChecker
from server.translation.passes.first_letter import (
    is_surer,
    is_unsure,
    may_begin_small,
    with_capital_first_letter,
    with_small_first_letter,
)
from server.translation.passes.reranking import Reranker
from server.translation.passes.spans import SpanPlacer
from server.translation.passes.terms import TermEnforcer, Translate
from server.translation.retry import is_better, retry_options
from server.translation.segments import Segment, SegmentedText, masked_retry
from server.translation.types import FAULTS, ProgressListener, Sentence, TranslationRequest

IN_FLIGHT = 512
"""Segments of a text that are at the workers at the same time: enough for every slot of a GPU."""
_BURST = 32
"""Segments that are sent at once; after them the event loop serves other requests."""


class SentenceTranslator:
    """Translates segments on the workers. The caller keeps the model loaded. Belongs to one event loop."""

    def __init__(
        self, engine: EngineClient, aligner: WordAligner, checker: SentenceChecker, observer: CheckObserver
    ) -> None:
        self._engine = engine
        self._placer = SpanPlacer(aligner)
        self._enforcer = TermEnforcer(aligner)
        self._checker = checker
        self._observer = observer
        self._reranker = Reranker(engine)

    async def translate(
        self,
        texts: Sequence[SegmentedText],
        request: TranslationRequest,
        priority: int,
        text_number: int,
        listener: ProgressListener | None,
    ) -> list[list[Sentence]]:
        """Returns the sentences of each segmented text. At most IN_FLIGHT of them are at the workers at the same time;
        repeats and aligns them as their answers arrive, and reports them in order."""
        segments = [(segment, text.leg) for text in texts for segment in text.segments]
        if len(segments) == 1 and listener is None:
            sentence = await self._only(*segments[0], request, priority)
            return [[sentence] if text.segments else [] for text in texts]
        on_tokens = listener.on_tokens if listener else None
        waiters: list[Waiter[TranslationResult]] = []
        pending: list[asyncio.Future[Sentence]] = []
        unsent = iter(segments)

        async def send_up_to(number: int) -> None:
            for segment, leg in islice(unsent, number - len(pending)):
                progress = on_tokens and _token_progress(on_tokens, text_number, len(pending), segment, leg)
                waiter = self._send(segment, leg, request, priority, progress) if segment.ids else None
                if waiter is not None:
                    waiters.append(waiter)
                pending.append(asyncio.ensure_future(self._checked(segment, leg, waiter, request, priority)))
                if len(pending) % _BURST == 0:
                    await asyncio.sleep(0)

        try:
            found: list[Sentence] = []
            for position, (_, leg) in enumerate(segments):
                await send_up_to(position + IN_FLIGHT)
                found.append(_with_local_numbers(await pending[position], leg, request))
                if listener is not None:
                    listener.on_sentence(text_number, position, found[-1])
            sentences = iter(found)
            return [list(islice(sentences, len(text.segments))) for text in texts]
        finally:
            for task in pending:
                task.cancel()
            if not all(task.done() for task in pending):
                await asyncio.gather(*pending, return_exceptions=True)
            for waiter in waiters:
                waiter.leave()

    async def _only(self, segment: Segment, leg: Leg, request: TranslationRequest, priority: int) -> Sentence:
        """Returns the sentence of a segment that has no others beside it, so it needs no task."""
        waiter = self._send(segment, leg, request, priority) if segment.ids else None
        try:
            return _with_local_numbers(await self._checked(segment, leg, waiter, request, priority), leg, request)
        finally:
            if waiter is not None:
                waiter.leave()

    def _send(
        self,
        segment: Segment,
        leg: Leg,
        request: TranslationRequest,
        priority: int,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> Waiter[TranslationResult]:
        # The request's deadline is not part of the job: requests with another deadline may share it.
        return self._engine.translate(
            leg.model,
            segment.ids,
            leg.decoding_options(request.options),
            priority=priority,
            client=request.client,
            weight=request.weight,
            on_progress=on_progress,
        )

    async def _checked(
        self,
        segment: Segment,
        leg: Leg,
        waiter: Waiter[TranslationResult] | None,
        request: TranslationRequest,
        priority: int,
    ) -> Sentence:
        """Returns the sentence of a segment with its flags. If it has one of the FAULTS, it is marked, translated again
        or replaced by its source, as the request says."""
        check, thorough = self._checker.checked, request.thorough
        sentence = await check(await self._sentence(segment, leg, waiter, request, priority), leg, thorough=thorough)
        for flag in sentence.flags:
            self._observer.flagged(flag)
        if request.on_flag == "mark" or not sentence.flags & FAULTS:
            return sentence
        if request.on_flag == "source":
            return replace(sentence, ids=(), targets=(segment.text,), hypotheses=(), to_read=(), to_target=())
        if sentence.copied:
            return sentence
        options = retry_options(leg.decoding_options(request.options))
        options = replace(options, hypotheses=request.options.hypotheses)
        wider = replace(request, options=options)
        waiter = self._send(segment, leg, wider, priority)
        try:
            other = await check(await self._sentence(segment, leg, waiter, wider, priority), leg, thorough=thorough)
        except InvalidRequest:  # the beam has more rows than the server has slots
            return sentence
        finally:
            waiter.leave()
        replaced = is_better(other, sentence, options)
        self._observer.retried(replaced)
        return other if replaced else sentence

    async def _sentence(
        self,
        segment: Segment,
        leg: Leg,
        waiter: Waiter[TranslationResult] | None,
        request: TranslationRequest,
        priority: int,
    ) -> Sentence:
        """Awaits the worker's answer and turns it into text; a segment without `waiter` is copied. If the model is
        unsure of a short text, it reads it again with a small first letter. If a span, a name or a number was lost, the
        sentence is translated again with all of them masked."""
        if waiter is None:
            return await self._copied(segment, request, priority)
        decode = leg.model.tokenizer.decode
        answer = await self._result(waiter, segment, leg, request, priority)
        again: Translate = partial(self._again, request=request, priority=priority)
        if may_begin_small(segment):
            segment, answer = await self._surer(segment, leg, answer, request, again)
        best = decode(answer.hypotheses[0].tokens)
        if retry := masked_retry(segment, best, leg):
            segment = retry
            if not segment.ids:
                return await self._copied(segment, request, priority)
            answer = await again(segment, leg)
            best = decode(answer.hypotheses[0].tokens)
        if segment.terms:
            answer = await self._enforcer.enforce(segment, leg, answer, again)
            best = decode(answer.hypotheses[0].tokens)
            again = self._with_terms(again)
        if not best.strip():  # the source is more useful than an empty translation
            copied = await self._copied(segment, request, priority)
            return replace(copied, flags=frozenset({"copied"})) if ordinary_words(segment.text) else copied
        if not segment.spans and segment.masked.is_complete(best):
            others = answer.hypotheses[1:]
            texts = (best, *[decode(other.tokens) for other in others]) if others else (best,)
            if segment.capitals or segment.small_first:
                write = str.upper if segment.capitals else with_capital_first_letter
                texts = tuple([write(text) for text in texts])
            return Sentence(
                segment.span, segment.text, segment.ids, texts, answer.hypotheses, answer.timings, segment.read
            )
        messages = await self._messages(segment, request, priority)
        placed = await self._placer.place(segment, leg, answer, messages, again)
        segment, answer = placed.segment, placed.answer
        return Sentence(
            segment.span, segment.text, segment.ids, placed.texts, answer.hypotheses, answer.timings, segment.read,
            to_read=segment.masked.runs, to_target=placed.runs,
            flags=frozenset({"placeholder_restored"} if placed.inserted else ()),
        )  # fmt: skip

    async def _surer(
        self,
        segment: Segment,
        leg: Leg,
        answer: TranslationResult,
        request: TranslationRequest,
        again: Translate,
    ) -> tuple[Segment, TranslationResult]:
        """Returns the segment as the model is surer of it, as it is or with a small first letter, and its translation."""
        options, first = leg.decoding_options(request.options), answer.hypotheses[0]
        if not is_unsure(first, options):
            return segment, answer
        small = with_small_first_letter(segment, leg)
        other = await again(small, leg)
        copied = leg.model.tokenizer.decode(first.tokens).casefold() == segment.read.casefold()
        kept = is_surer(other.hypotheses[0], first, options, copied=copied)
        return (small, other) if kept else (segment, answer)

    async def _again(
        self,
        segment: Segment,
        leg: Leg,
        *,
        request: TranslationRequest,
        priority: int,
        prefix: tuple[int, ...] = (),
        target: tuple[int, ...] | None = None,
    ) -> TranslationResult:
        """Translates another form of a segment, or the same with the first tokens of the translation given. With
        `target` the whole translation is given, and only scored."""
        if prefix:
            request = replace(request, options=replace(request.options, prefix=prefix))
        if target is not None:
            request = replace(request, options=replace(request.options, target=target, hypotheses=1))
        waiter = self._send(segment, leg, request, priority)
        try:
            return await self._result(waiter, segment, leg, request, priority)
        finally:
            waiter.leave()

    async def _result(
        self,
        waiter: Waiter[TranslationResult],
        segment: Segment,
        leg: Leg,
        request: TranslationRequest,
        priority: int,
    ) -> TranslationResult:
        """Awaits the worker's answer, and reranks it if the request says so."""
        answer = await waiter.result()
        if not request.options.rerank or not leg.decoding_options(request.options).rerank:
            return answer
        return await self._reranker.ranked(segment, leg, answer, request, priority)

    def _with_terms(self, translate: Translate) -> Translate:
        """Returns a function that translates a segment and puts the terms of the glossary into the translation, without
        further forced decoding."""

        async def again(
            segment: Segment, leg: Leg, *, prefix: tuple[int, ...] = (), target: tuple[int, ...] | None = None
        ) -> TranslationResult:
            answer = await translate(segment, leg, prefix=prefix, target=target)
            return await self._enforcer.enforce(segment, leg, answer, translate, forced=0)

        return again

    async def _messages(self, segment: Segment, request: TranslationRequest, priority: int) -> dict[str, str]:
        """Returns the ICU messages of a segment with their arms translated, by the messages."""
        if not segment.messages:
            return {}
        sentences = await self.translate(segment.messages, request, priority, 0, None)
        return {
            message.text: message.join([sentence.targets[0] for sentence in found])
            for message, found in zip(segment.messages, sentences, strict=True)
        }

    async def _copied(self, segment: Segment, request: TranslationRequest, priority: int) -> Sentence:
        """Returns the sentence of a segment of which at most the arms of ICU messages are translated."""
        text = with_translated_terms(segment.text, segment.terms, segment.spans)
        for message, translation in (await self._messages(segment, request, priority)).items():
            text = text.replace(message, translation)
        return Sentence(segment.span, segment.text, (), (text,))


def _with_local_numbers(sentence: Sentence, leg: Leg, request: TranslationRequest) -> Sentence:
    """Returns the sentence with the separators of the target language in its numbers, if the request asks for them."""
    if not request.localize_numbers or (sentence.copied and sentence.flags):
        return sentence
    targets = [localize_numbers(sentence.source, target, leg.source, leg.target) for target in sentence.targets]
    return replace(sentence, targets=tuple(targets))


def _token_progress(
    on_tokens: Callable[[int, int, str], None], text_number: int, position: int, segment: Segment, leg: Leg
) -> Callable[[tuple[int, ...]], None]:
    decode, masked = leg.model.tokenizer.decode, segment.masked
    return lambda tokens: on_tokens(text_number, position, masked.with_originals(decode(tokens)))
