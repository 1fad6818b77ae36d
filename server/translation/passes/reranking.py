"""Reranking: chooses among the hypotheses of a beam search with the reverse direction (noisy channel).

A hypothesis that leaves out or invents something may be probable, but makes its source improbable. So the model also
scores the source as a translation of each hypothesis (Yee, Dauphin and Auli 2019, "Simple and Effective Noisy Channel
Modeling for Neural Machine Translation").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.search.options import DecodingOptions
from server.engine.client.engine_client import EngineClient
from server.engine.client.single_flight import Waiter
from server.engine.ipc.messages import Timings, TranslationResult
from server.translation.catalog import Leg
from server.translation.segments import Segment
from server.translation.types import TranslationRequest

WEIGHT = 0.3
"""The factor of the reverse score. Both scores are normalised by length."""
MARGIN, MOST = 0.6, 4
"""Only the first MOST hypotheses are compared, unless more are wanted, and of these, for one translation, those at most
MARGIN below the best. Others hardly ever win."""


class Reranker:
    """Reranks the translations of segments. The caller keeps the model loaded. Belongs to one event loop."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine

    async def ranked(
        self, segment: Segment, leg: Leg, answer: TranslationResult, request: TranslationRequest, priority: int
    ) -> TranslationResult:
        """Returns the answer with as many hypotheses as the request wants, best first. If there are several to choose
        from, their `score` is that of both directions, and the timings count the slowest of their scores."""
        wanted = request.options.hypotheses
        hypotheses = answer.hypotheses[: max(MOST, wanted)]
        if wanted == 1:
            hypotheses = tuple([one for one in hypotheses if one.score >= hypotheses[0].score - MARGIN])
        answer = replace(answer, hypotheses=hypotheses)
        if len(hypotheses) > 1 and (reverse := leg.reverse) is not None:
            answer = await self._reranked(segment, reverse, answer, request, priority)
        return replace(answer, hypotheses=answer.hypotheses[:wanted])

    async def _reranked(
        self,
        segment: Segment,
        reverse: Leg,
        answer: TranslationResult,
        request: TranslationRequest,
        priority: int,
    ) -> TranslationResult:
        """Returns the hypotheses in the order of both directions, or as they are if one is too long to be read."""
        hypotheses = answer.hypotheses
        model, options = reverse.model, request.options
        source = model.tokenizer.encode_target(segment.read)
        texts = [model.tokenizer.decode(one.tokens) for one in hypotheses]
        written = [reverse.encode_ids(text) for text in texts]
        if max(len(source) + 1, *map(len, written)) > model.max_length:
            return answer
        scored = DecodingOptions(
            target=source, length_penalty=options.length_penalty, normalization=options.normalization,
            masked_heads=options.masked_heads,
        )  # fmt: skip
        waiters: list[Waiter[TranslationResult]] = []
        try:
            for ids in written:
                waiters.append(
                    self._engine.translate(
                        model, ids, reverse.decoding_options(scored), priority=priority, client=request.client,
                        weight=request.weight,
                    )
                )  # fmt: skip
            answers = [await waiter.result() for waiter in waiters]
        finally:
            for waiter in waiters:
                waiter.leave()
        scores = [one.hypotheses[0].score for one in answers]
        both = [replace(one, score=one.score + WEIGHT * score) for one, score in zip(hypotheses, scores, strict=True)]
        # A copy predicts its text best, so a copy is first only if the search has put it there.
        copies = [place > 0 and text.casefold() == segment.read.casefold() for place, text in enumerate(texts)]
        order = sorted(range(len(both)), key=lambda i: (copies[i], -both[i].score))
        timings = _with_slowest(answer.timings, [one.timings for one in answers])
        return replace(answer, hypotheses=tuple([both[i] for i in order]), timings=timings)


def _with_slowest(first: Timings, others: Sequence[Timings]) -> Timings:
    """Returns the timings of a job and of the slowest of those after it."""
    slowest = max(others, key=lambda one: one.queue + one.encode + one.decode)
    return replace(
        first,
        queue=first.queue + slowest.queue,
        encode=first.encode + slowest.encode,
        decode=first.decode + slowest.decode,
    )
