"""Sends the segments of a text to the workers and turns the answers into sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from server.engine.client.engine_client import EngineClient
from server.engine.client.single_flight import Waiter
from server.engine.ipc.messages import TranslationResult
from server.text.placeholders import restore
from server.translation.catalog import Leg
from server.translation.markup_alignment import WordAligner, links_by_position
from server.translation.segments import Segment, SegmentedText, masked_retry
from server.translation.types import ProgressListener, Sentence, TranslationRequest

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
        """Returns the sentences of each segmented text. Sends all of them at once; awaits and reports them in order."""
        on_tokens = listener.on_tokens if listener else None
        waiters: list[Waiter[TranslationResult] | None] = []
        try:
            for text in texts:
                for segment in text.segments:
                    progress = on_tokens and _token_progress(on_tokens, text_number, len(waiters), text.leg)
                    waiters.append(self._send(segment, text.leg, request, priority, progress) if segment.ids else None)
            position = 0
            translated: list[list[Sentence]] = []
            for text in texts:
                sentences: list[Sentence] = []
                for segment in text.segments:
                    waiter = waiters[position]
                    if waiter is None:
                        sentence = copied_sentence(segment)
                    else:
                        sentence = await self._sentence(segment, text.leg, await waiter.result(), request, priority)
                    sentences.append(sentence)
                    if listener is not None:
                        listener.on_sentence(text_number, position, sentence)
                    position += 1
                translated.append(sentences)
            return translated
        finally:
            for waiter in waiters:
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
            on_progress=on_progress,
        )

    async def _sentence(
        self, segment: Segment, leg: Leg, answer: TranslationResult, request: TranslationRequest, priority: int
    ) -> Sentence:
        """Turns the worker's answer into text. A translation that lacks an address, an emoji, a name or a number of the
        segment is replaced by one of the masked segment."""
        decode = leg.model.tokenizer.decode
        best = decode(answer.hypotheses[0].tokens)
        for _ in range(_RETRIES):
            retry = masked_retry(segment, best, leg)
            if retry is None:
                break
            segment = retry
            if not segment.ids:
                return copied_sentence(segment)
            waiter = self._send(segment, leg, request, priority)
            try:
                answer = await waiter.result()
            finally:
                waiter.leave()
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
        only if a span lies between words."""
        inside = any(0 < mark.span[0] < len(segment.read.rstrip()) for mark in segment.marks)
        if inside and rank == 0:
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
