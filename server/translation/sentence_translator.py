"""Sends the segments of a text to the workers and turns the answers into sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from server.engine.client.engine_client import EngineClient
from server.engine.client.single_flight import Waiter
from server.engine.ipc.messages import TranslationResult
from server.text.placeholders import WORD, restore
from server.translation.catalog import Leg
from server.translation.markup_alignment import WordAligner, links_by_position
from server.translation.segments import Segment, SegmentedText, masked_retry
from server.translation.types import ProgressListener, Sentence, TranslationRequest

IN_FLIGHT = 512
"""Segments of a text that are at the workers at the same time: enough for every slot of a GPU."""
_BURST = 32
"""Segments that are sent at once; between two bursts the event loop serves other requests."""
_RETRIES = 2
"""Retries of a sentence: first with addresses, emoji and names masked, then with numbers masked too."""


class SentenceTranslator:
    """Translates segments on the workers. The caller keeps the model loaded. Belongs to one event loop."""

    def __init__(self, engine: EngineClient, aligner: WordAligner) -> None:
        self._engine = engine
        self._aligner = aligner

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
        on_tokens = listener.on_tokens if listener else None
        waiters: list[Waiter[TranslationResult]] = []
        pending: list[Awaitable[Sentence]] = []
        segments = [(segment, text.leg) for text in texts for segment in text.segments]
        unsent = iter(segments)

        async def send_up_to(number: int) -> None:
            for segment, leg in islice(unsent, number - len(pending)):
                progress = on_tokens and _token_progress(on_tokens, text_number, len(pending), leg)
                waiter = self._send(segment, leg, request, priority, progress) if segment.ids else None
                waiters.extend([waiter] if waiter else [])
                sentence = self._sentence(segment, leg, waiter, request, priority)
                pending.append(sentence if len(segments) == 1 else asyncio.ensure_future(sentence))
                if len(pending) % _BURST == 0:
                    await asyncio.sleep(0)

        try:
            found: list[Sentence] = []
            for position in range(len(segments)):
                await send_up_to(position + IN_FLIGHT)
                found.append(await pending[position])
                if listener is not None:
                    listener.on_sentence(text_number, position, found[-1])
            sentences = iter(found)
            return [list(islice(sentences, len(text.segments))) for text in texts]
        finally:
            tasks = [task for task in pending if isinstance(task, asyncio.Future)]
            for task in tasks:
                task.cancel()
            if not all(task.done() for task in tasks):
                await asyncio.gather(*tasks, return_exceptions=True)
            for waiter in waiters:
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
            on_progress=on_progress,
        )

    async def _sentence(
        self,
        segment: Segment,
        leg: Leg,
        waiter: Waiter[TranslationResult] | None,
        request: TranslationRequest,
        priority: int,
    ) -> Sentence:
        """Awaits the worker's answer and turns it into text; a segment without `waiter` is copied. A translation that
        lacks an address, an emoji, a name or a number of the segment is replaced by one of the masked segment."""
        if waiter is None:
            return copied_sentence(segment)
        decode = leg.model.tokenizer.decode
        answer = await waiter.result()
        best = decode(answer.hypotheses[0].tokens)
        for _ in range(_RETRIES):
            retry = masked_retry(segment, best, leg)
            if retry is None:
                break
            segment = retry
            if not segment.ids:
                return copied_sentence(segment)
            retried = self._send(segment, leg, request, priority)
            try:
                answer = await retried.result()
            finally:
                retried.leave()
            best = decode(answer.hypotheses[0].tokens)
        if not best.strip():  # the source is more useful than an empty translation
            return copied_sentence(segment)
        texts = (best, *[decode(hypothesis.tokens) for hypothesis in answer.hypotheses[1:]])
        if segment.marks:
            targets = [await self._restored(segment, leg, answer, rank, text) for rank, text in enumerate(texts)]
            texts = tuple(targets)
        elif segment.capitals:
            texts = tuple([text.upper() for text in texts])
        return Sentence(segment.span, segment.text, segment.ids, texts, answer.hypotheses, answer.timings, segment.read)

    async def _restored(self, segment: Segment, leg: Leg, answer: TranslationResult, rank: int, text: str) -> str:
        """Returns the text of a hypothesis with the masked spans. Only the best hypothesis is aligned by attention, and
        only if a span lies between words and most of the segment is not masked: an alignment takes longer than a
        translation, and few words give little order to many spans."""
        inside = any(0 < mark.span[0] < len(segment.read.rstrip()) for mark in segment.marks)
        if inside and rank == 0 and len(segment.marks) <= len(WORD.findall(segment.read)):
            links = await self._aligner.sentence_links(leg, segment.read, segment.ids, answer.hypotheses[0].tokens)
        else:
            links = links_by_position(segment.read, text)
        return restore(segment.marks, segment.read, text, links, str.upper if segment.capitals else str)


def copied_sentence(segment: Segment) -> Sentence:
    """Returns the sentence of a segment that is not translated."""
    return Sentence(segment.span, segment.text, (), (segment.text,))


def _token_progress(
    on_tokens: Callable[[int, int, str], None], text_number: int, position: int, leg: Leg
) -> Callable[[tuple[int, ...]], None]:
    decode = leg.model.tokenizer.decode
    return lambda tokens: on_tokens(text_number, position, decode(tokens))
