"""One sentence to the worker and back: ids out, text in, with what was protected put back in its place."""

from __future__ import annotations

from collections.abc import Callable

from server.engine.client.engine_client import EngineClient
from server.engine.client.single_flight import Waiter
from server.engine.ipc.messages import TranslationResult
from server.text.placeholders import restore
from server.translation.catalog import Leg
from server.translation.markup_alignment import WordAligner, links_by_position
from server.translation.preprocessing import Segment, masked_retry
from server.translation.types import Sentence, TranslationRequest

_TRIES = 2
"""How often a sentence is made again: without addresses and emoji, then without numbers."""


class SentenceTranslator:
    """Translates single segments on the workers. Belongs to one event loop."""

    def __init__(self, engine: EngineClient) -> None:
        self.engine = engine
        self.aligner = WordAligner(engine)

    def send(
        self,
        segment: Segment,
        leg: Leg,
        request: TranslationRequest,
        priority: int,
        on_progress: Callable[[tuple[int, ...]], None] | None = None,
    ) -> Waiter[TranslationResult]:
        """Sends a segment to a worker. The caller awaits the waiter's result and in any case leaves it."""
        # The request's deadline is not part of the job: requests with another deadline may share it.
        return self.engine.translate(
            leg.model,
            segment.ids,
            request.options,
            priority=priority,
            client=request.client,
            on_progress=on_progress,
        )

    async def sentence(
        self, segment: Segment, leg: Leg, answer: TranslationResult, request: TranslationRequest, priority: int
    ) -> Sentence:
        """What the worker made of a segment, as text. A translation that lost an address, an emoji, a name or a number
        is made again without them, and they are put back."""
        best = leg.model.tokenizer.decode(answer.hypotheses[0].tokens)
        for _ in range(_TRIES):
            again = masked_retry(segment, best, leg)
            if again is None:
                break
            segment = again
            if not segment.ids:
                return copied_sentence(segment)
            waiter = self.send(segment, leg, request, priority)
            try:
                answer = await waiter.result()
            finally:
                waiter.leave()
            best = leg.model.tokenizer.decode(answer.hypotheses[0].tokens)
        if not best.strip():  # better the source than nothing
            return copied_sentence(segment)
        others = [leg.model.tokenizer.decode(hypothesis.tokens) for hypothesis in answer.hypotheses[1:]]
        targets = [await self._written(segment, leg, answer, rank, text) for rank, text in enumerate((best, *others))]
        return Sentence(
            segment.span, segment.text, segment.ids, tuple(targets), answer.hypotheses, answer.timings, segment.read
        )

    async def _written(self, segment: Segment, leg: Leg, answer: TranslationResult, rank: int, text: str) -> str:
        """The text of one hypothesis with what was taken out; only the best is worth an exact alignment."""
        write = str.upper if segment.capitals else str
        if not segment.marks:
            return write(text)
        inside = any(0 < mark.span[0] < len(segment.read.rstrip()) for mark in segment.marks)
        if inside and rank == 0:
            links = await self.aligner.within(leg, segment.read, segment.ids, answer.hypotheses[0].tokens)
        else:
            links = links_by_position(segment.read, text)
        return restore(segment.marks, segment.read, text, links, write)


def copied_sentence(segment: Segment) -> Sentence:
    """A segment that needs no model."""
    return Sentence(segment.span, segment.text, (), (segment.text,))
