"""How a sentence was decoded: the candidates of every step, the beams that survived, and where the others died."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from model.search.options import Hypothesis
from server.engine.ipc.messages import TranslationResult
from server.errors import InvalidRequest
from server.inspection.inspector import Inspector
from server.translation.catalog import AUTO, Leg
from server.translation.preprocessing import segment_text
from server.translation.time_limit import time_limit
from server.translation.types import TranslationRequest


@dataclass(frozen=True, slots=True)
class Traced:
    """One sentence with the steps of its search."""

    leg: Leg
    sentence: int
    sentences: int
    source_text: str
    source: tuple[int, ...]
    answer: TranslationResult

    def text(self, hypothesis: Hypothesis) -> str:
        return self.leg.model.tokenizer.decode(hypothesis.tokens)

    def piece(self, token: int) -> str:
        return self.leg.model.tokenizer.piece(token)


async def trace(inspector: Inspector, request: TranslationRequest, sentence: int) -> Traced:
    """Decode one sentence (counted from 0) of the request's first text again, keeping every step.

    Counts against the bound on looks. Raises InvalidRequest where there is nothing to decode or two models are needed,
    and what translating raises.
    """
    translator = inspector.translator
    catalog = translator.catalog
    text, code = request.texts[0], request.source
    if code.strip().lower() == AUTO:
        guesses = translator.detect(text)
        if not guesses:
            raise InvalidRequest("The language cannot be detected here; name it in source.")
        code = guesses[0].language
    route = catalog.route(catalog.source(code), catalog.target(request.target))
    if len(route) != 1:
        raise InvalidRequest("A trace needs a model for exactly this direction.")
    segments = segment_text(text, route[0]).segments
    if not 0 <= sentence < len(segments):
        raise InvalidRequest(
            f"sentence must be between 0 and {len(segments) - 1} for this text."
            if segments
            else "The text holds no sentence."
        )
    segment = segments[sentence]
    if not segment.ids:
        raise InvalidRequest(f"Sentence {sentence} holds nothing to translate and is copied.")
    options = dataclasses.replace(request.options, trace=True, hypotheses=request.options.beam_size)
    async with time_limit(request.deadline):
        with inspector.admission.admit(1, request.deadline):
            answer = await translator.engine.trace(route[0].model, segment.ids, options, client=request.client)
    return Traced(route[0], sentence, len(segments), segment.text, segment.ids, answer)
