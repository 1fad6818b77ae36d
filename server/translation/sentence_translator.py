"""One sentence to the worker and back: ids out, text in, with what was protected put back in its place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from server.engine.client.supervisor import Supervisor, WorkerFailure
from server.engine.ipc.messages import Translated
from server.observability.metrics import Metrics
from server.text.placeholders import put_back
from server.translation.catalog import Leg
from server.translation.markup_alignment import Aligner, proportional
from server.translation.preprocessing import Segment, retried
from server.translation.single_flight import Seat, SingleFlight
from server.translation.types import Sentence, TranslationRequest

_TRIES = 2
"""How often a sentence is made again: without addresses and emoji, then without numbers."""


class SentenceDecoder:
    """Sends segments to the workers; identical ones that are under way at the same time are computed once.

    Belongs to one event loop.
    """

    def __init__(self, engine: Supervisor, metrics: Metrics) -> None:
        self.engine = engine
        self.metrics = metrics
        self.aligner = Aligner(engine)
        self.flights: SingleFlight[Translated] = SingleFlight()

    def seat(
        self,
        segment: Segment,
        leg: Leg,
        request: TranslationRequest,
        priority: int,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> Seat[Translated]:
        """Sends a segment off. The caller awaits the seat's result and in any case leaves it."""

        def start() -> asyncio.Future[Translated]:
            began = time.monotonic()
            future = self.engine.submit(
                leg.model.key,
                segment.ids,
                request.options,
                priority=priority,
                client=request.client,
                on_progress=on_progress,
            )
            future.add_done_callback(lambda done: self._count(done, len(segment.ids), time.monotonic() - began))
            return future

        # The deadline is no part of the job, as others with a later one may share it: leaving the seat cancels it. A
        # caller who wants to hear of tokens shares with nobody.
        private = object() if on_progress else None
        return self.flights.join((leg.model.key, segment.ids, request.options, priority, private), start)

    async def sentence(
        self, segment: Segment, leg: Leg, answer: Translated, request: TranslationRequest, priority: int
    ) -> Sentence:
        """What the worker made of a segment, as text. A translation that lost an address, an emoji, a name or a number
        is made again without them, and they are put back."""
        best = leg.model.tokenizer.decode(answer.hypotheses[0].tokens)
        for _ in range(_TRIES):
            again = retried(segment, best, leg)
            if again is None:
                break
            segment = again
            if not segment.ids:
                return copied(segment)
            seat = self.seat(segment, leg, request, priority)
            try:
                answer = await seat.result()
            finally:
                seat.leave()
            best = leg.model.tokenizer.decode(answer.hypotheses[0].tokens)
        if not best.strip():  # better the source than nothing
            return copied(segment)
        others = [leg.model.tokenizer.decode(hypothesis.tokens) for hypothesis in answer.hypotheses[1:]]
        targets = [await self._written(segment, leg, answer, rank, text) for rank, text in enumerate((best, *others))]
        return Sentence(
            segment.span, segment.text, segment.ids, tuple(targets), answer.hypotheses, answer.timings, segment.read
        )

    async def _written(self, segment: Segment, leg: Leg, answer: Translated, rank: int, text: str) -> str:
        """The text of one hypothesis with what was taken out; only the best is worth an exact alignment."""
        write = str.upper if segment.capitals else str
        if not segment.marks:
            return write(text)
        inside = any(0 < mark.span[0] < len(segment.read.rstrip()) for mark in segment.marks)
        if inside and rank == 0:
            links = await self.aligner.within(leg, segment.read, segment.ids, answer.hypotheses[0].tokens)
        else:
            links = proportional(segment.read, text)
        return put_back(segment.marks, segment.read, text, links, write)

    def _count(self, done: asyncio.Future[Translated], tokens: int, seconds: float) -> None:
        if done.cancelled():
            self.metrics.cancelled()
        elif (error := done.exception()) is not None:
            self.metrics.failed(error.kind if isinstance(error, WorkerFailure) else "internal")
        else:
            self.metrics.translated(tokens, done.result(), seconds)


def copied(segment: Segment) -> Sentence:
    """A segment that needs no model."""
    return Sentence(segment.span, segment.text, (), (segment.text,))
