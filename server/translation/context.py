"""The frozen context that all passes over a sentence share, and the draft that each of them receives and returns."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from model.search.options import DecodingOptions
from model.search.search import normalize
from server.engine.client.engine_client import EngineClient
from server.engine.ipc.messages import TranslationResult
from server.observability.metrics import Metrics
from server.text.finishing import Finished
from server.text.language_id import LanguageDetector
from server.text.projection import Link
from server.translation.alignment import sentence_links
from server.translation.catalog import Leg
from server.translation.preparation import Segment
from server.translation.types import NO_TIMINGS, Flag, Sentence, TranslationRequest

Result = TypeVar("Result")
BURST = 32
"""Tasks that are started at once; after them the event loop serves other requests."""
COPIED = TranslationResult(0, (), NO_TIMINGS, 0)
"""The answer for a segment that no model reads."""


@dataclass(slots=True)
class Draft:
    """A translation of a segment between two passes. `segment` is the form of it that the model read, and `text` is its
    best translation as the model wrote it. A copied draft has no hypotheses. `finished` are the final texts of the
    hypotheses with their codes; the flags and confidence are those of the `Sentence`."""

    segment: Segment
    answer: TranslationResult
    text: str = ""
    finished: tuple[Finished, ...] = ()
    flags: frozenset[Flag] = frozenset()
    confidence: float | None = None

    @property
    def copied(self) -> bool:
        return not self.answer.hypotheses

    @property
    def targets(self) -> tuple[str, ...]:
        """The final texts of the hypotheses."""
        return tuple([each.text for each in self.finished])

    def respelled(self, targets: Sequence[str]) -> Draft:
        """Returns the draft with other spellings of its final texts, whose codes keep their places."""
        pairs = zip(self.finished, targets, strict=True)
        return replace(self, finished=tuple([each.respelled(text) for each, text in pairs]))

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of the best hypothesis."""
        return self.answer.hypotheses[0].tokens

    def score(self, options: DecodingOptions) -> float:
        """Returns the score of the search: the log-probability of the best hypothesis divided by the length penalty.
        (`Hypothesis.score` may be that of both directions.)"""
        scores = self.answer.hypotheses[0].token_scores
        return normalize(math.fsum(scores), max(1, len(scores)) + (options.first_token is not None), options)

    def sentence(self) -> Sentence:
        """Returns the result."""
        segment, answer = self.segment, self.answer
        return Sentence(
            segment.text, segment.ids, self.targets, answer.hypotheses, answer.timings, segment.read,
            segment.reading.originals, self.flags, self.confidence, answer.options,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pass:
    """One step over the translation of a sentence. `apply` returns the draft, or a better one; it runs where `when` is true.
    `rows` states the rows that it adds to those of the first decoding, for admission; a rescue of a few sentences has none."""

    apply: Callable[[SentenceContext, Draft], Coroutine[Any, Any, Draft]]
    when: Callable[[SentenceContext, Draft], object]
    rows: Callable[[TranslationRequest, DecodingOptions], int] | None = None


@dataclass(frozen=True, slots=True)
class SentenceContext:
    """One segment with the model of its leg, the request (its options, its caller), and the passes over its translation.
    `options` are those of the request with what the model adds. `on_progress` receives the tokens of the first decoding.
    The caller keeps the model loaded."""

    segment: Segment
    leg: Leg
    request: TranslationRequest
    options: DecodingOptions
    priority: int
    passes: tuple[Pass, ...]
    engine: EngineClient
    detector: LanguageDetector
    metrics: Metrics
    on_progress: Callable[[tuple[int, ...]], None] | None = None

    async def translate(self) -> Draft:
        """Decodes the segment and runs the passes."""
        draft = await self.decode(self.segment, on_progress=self.on_progress)
        for step in self.passes:
            if step.when(self, draft):
                draft = await step.apply(self, draft)
        return draft

    async def decode(
        self,
        segment: Segment,
        *,
        prefix: tuple[int, ...] = (),
        target: tuple[int, ...] | None = None,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> Draft:
        """Translates a form of the segment. The translation begins with the tokens of `prefix`; a whole `target` is only
        scored. A segment without ids is copied."""
        if not segment.ids:
            return Draft(segment, COPIED)
        options = self.options
        if prefix or target is not None:  # these are not reranked
            hypotheses = self.request.options.hypotheses if target is None else 1
            given = replace(self.request.options, prefix=prefix, target=target, hypotheses=hypotheses)
            options = self.leg.decoding_options(given)
        best = options if options.rerank or options.hypotheses == 1 else replace(options, hypotheses=1)
        answer = await self.answer(self.leg, segment.ids, best, on_progress)
        if best.hypotheses < options.hypotheses:  # a list is searched further, and may have another best translation
            wider = await self.answer(self.leg, segment.ids, options, None)
            first, tokens = answer.hypotheses[0], [each.tokens for each in wider.hypotheses]
            place = tokens.index(first.tokens) if first.tokens in tokens else len(tokens) - 1
            answer = replace(answer, hypotheses=(first, *wider.hypotheses[:place], *wider.hypotheses[place + 1 :]))
        return Draft(segment, answer, self.leg.model.tokenizer.decode(answer.hypotheses[0].tokens))

    async def links(self, read: str, ids: tuple[int, ...], tokens: tuple[int, ...]) -> list[Link]:
        """Returns links between a text that the model read as `ids` and that of the `tokens` it wrote."""
        request = self.request
        return await sentence_links(
            self.engine, self.leg, read, ids, tokens, request.client, request.weight, self.priority
        )

    async def answer(
        self,
        leg: Leg,
        ids: tuple[int, ...],
        options: DecodingOptions,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> TranslationResult:
        """Sends one job for the caller and returns the worker's answer."""
        # The request's deadline is not part of the job: requests with another deadline may share it.
        return await self.engine.translate(
            leg.model,
            ids,
            options,
            priority=self.priority,
            client=self.request.client,
            weight=self.request.weight,
            on_progress=on_progress,
        )


async def gather_or_cancel(coroutines: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Returns all results in order. The first exception, or a cancellation, cancels the others and waits until they
    have ended."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    tasks: list[asyncio.Task[Result]] = []
    waiting = iter(coroutines)
    try:
        while burst := list(islice(waiting, BURST)):
            tasks += map(asyncio.create_task, burst)
            if len(burst) == BURST:
                await asyncio.sleep(0)
        return await asyncio.gather(*tasks)
    finally:
        for coroutine in waiting:
            coroutine.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
