"""The steps of decoding one sentence: the candidates of every step, the kept beams and the dropped ones."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from model.search.options import Hypothesis
from server.engine.ipc.messages import TranslationResult
from server.errors import InvalidRequest
from server.inspection.inspector import Inspector
from server.inspection.types import out_of_range
from server.translation.catalog import AUTO, Leg
from server.translation.segments import segment_text
from server.translation.time_limit import time_limit
from server.translation.translator import Translator
from server.translation.types import TranslationRequest


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """One sentence with the steps of its search. `sentence` of `sentences` counts from 0."""

    leg: Leg
    sentence: int
    sentences: int
    source_text: str
    source: tuple[int, ...]
    answer: TranslationResult

    def text(self, hypothesis: Hypothesis) -> str:
        """Returns the text of a hypothesis."""
        return self.leg.model.tokenizer.decode(hypothesis.tokens)

    def piece(self, token: int) -> str:
        """Returns the piece of a token id."""
        return self.leg.model.tokenizer.piece(token)


async def trace_search(inspector: Inspector, request: TranslationRequest, sentence: int) -> SearchTrace:
    """Decodes one sentence (counted from 0) of the request's first text and records every step.

    Counts as an attention request in the admission. Raises InvalidRequest where the sentence does not exist, is copied,
    or needs two models, and the errors of a translation.
    """
    translator = inspector.translator
    leg = _single_leg(translator, request)
    segments = segment_text(request.texts[0], leg).segments
    if not 0 <= sentence < len(segments):
        raise out_of_range("sentence", len(segments), "the text")
    segment = segments[sentence]
    if not segment.ids:
        raise InvalidRequest(f"Sentence {sentence} holds nothing to translate and is copied.")
    options = leg.decoding_options(request.options)
    options = dataclasses.replace(options, trace=True, hypotheses=options.beam_size)
    async with time_limit(request.deadline):
        with inspector.admission.admit(1, request.deadline):
            answer = await translator.engine.trace(leg.model, segment.ids, options, client=request.client)
    return SearchTrace(leg, sentence, len(segments), segment.text, segment.ids, answer)


def _single_leg(translator: Translator, request: TranslationRequest) -> Leg:
    """Returns the one model of the request's direction. Raises InvalidRequest where it needs two models."""
    catalog, code = translator.catalog, request.source
    if code.strip().lower() == AUTO:
        guesses = translator.detect(request.texts[0])
        if not guesses:
            raise InvalidRequest("The language cannot be detected here; name it in source.")
        code = guesses[0].language
    route = catalog.route(catalog.source(code), catalog.target(request.target))
    if len(route) != 1:
        raise InvalidRequest("A trace needs a model for exactly this direction.")
    return route[0]
