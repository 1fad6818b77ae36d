"""The steps of decoding one sentence: the candidates of every step, the kept beams and the dropped ones."""

from __future__ import annotations

import asyncio
import dataclasses

from server.access.authentication import Caller
from server.engine.ipc.messages import JobResult
from server.errors import InvalidRequest
from server.inspection.inspector import ANYBODY, Inspector, charged_to
from server.inspection.types import InspectedSentence, out_of_range
from server.store.history_records import SentenceRecord
from server.translation.catalog import AUTO
from server.translation.preparation import segment_text
from server.translation.types import TranslationRequest


async def trace_search(
    inspector: Inspector, request: TranslationRequest, sentence: int, caller: Caller = ANYBODY
) -> tuple[InspectedSentence, JobResult]:
    """Decodes one sentence (counted from 0) of the request's first text and records every step.

    Counts as an attention request in the admission. Raises InvalidRequest where the sentence does not exist, is copied,
    or needs two models, and the errors of a translation.
    """
    translator, source = inspector.translator, request.source
    if source.strip().lower() == AUTO:
        source = translator.detector.detect(request.texts[0])[0].language
    leg = inspector.single_leg(source, request.target, "A trace")
    text = request.texts[0]
    segmented = await translator.work(request.client, len(text), segment_text, text, leg)
    if not 0 <= sentence < len(segmented.order):
        raise out_of_range("sentence", len(segmented.order), "the text")
    segment = segmented.segments[segmented.order[sentence]]
    if not segment.ids:
        raise InvalidRequest(f"Sentence {sentence} holds nothing to translate and is copied.")
    options = leg.decoding_options(request.options)
    options = dataclasses.replace(options, trace=True, hypotheses=options.beam_size)
    async with asyncio.timeout_at(request.deadline):
        with inspector.admit(caller, request.deadline, 2 * len(segment.ids)):
            answer = await translator.engine.answer(leg.model, segment.ids, options, charged=charged_to(caller))
    pair = SentenceRecord(segment.text, segment.ids, answer.hypotheses[0].tokens)
    return InspectedSentence(leg, pair, None, sentence, len(segmented.order)), answer
