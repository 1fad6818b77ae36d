"""POST /align: the links between the words of given sentences and their translations."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter
from pydantic import BeforeValidator, Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.analysis.attention_alignment import word_spans
from server.api.dependencies import check_texts, deadline, enter, json_response, services_of
from server.api.openapi import WORK, errors
from server.api.parameters import ParameterRoute
from server.api.schemas.base import Answer, Code, Key, Parameters, json_pairs
from server.engine.client.batch import gather_or_cancel
from server.errors import TextTooLong
from server.inspection.text_alignment import (
    PAIRS_AT_ONCE,
    AlignedTexts,
    TextAligner,
    between_spaces,
)
from server.inspection.types import AlignmentMethod
from server.translation.translator import token_estimate

PAIRS_LIMIT = 100
"""Largest number of pairs in one request for word alignments."""


class TextPair(Parameters):
    source: StrictStr
    target: StrictStr


class AlignParameters(Parameters):
    pairs: Annotated[list[TextPair], BeforeValidator(json_pairs)] = Field(
        description=f"Up to {PAIRS_LIMIT} sentences with their translations: objects, or lists of "
        "two.",
        examples=[[["A cat sleeps.", "Eine Katze schläft."]]],
    )
    source: Code = Field(description="Language of the sentences.", examples=["en"])
    target: Code = Field(description="Language of the translations.", examples=["de"])
    method: AlignmentMethod = Field(
        default="combined",
        description="As `alignment` of `/attention`. A model that cannot compare words has only "
        "`attention`.",
    )
    tokenized: bool = Field(default=False, description="The words are those between spaces.")
    api_key: Key = None


class AlignAnswer(Answer):
    model: str
    method: AlignmentMethod = Field(description="The method that was used.")
    pairs: list[AlignedTexts] = Field(
        description="The words of both sides with their characters, the links (source word, target "
        "word, probability), and these without probabilities as `0-0 1-2`."
    )


router = APIRouter(tags=["attention"], route_class=ParameterRoute, responses=errors(*WORK))


@router.post("/align", summary="Word alignment of given translations", response_model=AlignAnswer)
async def align(request: Request, parameters: AlignParameters) -> Response:
    """Both texts of a pair are taken as one sentence."""
    services = services_of(request)
    pairs = [(pair.source, pair.target) for pair in parameters.pairs]
    if len(pairs) > PAIRS_LIMIT:
        raise TextTooLong(f"At most {PAIRS_LIMIT} pairs are aligned at once.")
    texts = tuple(text for pair in pairs for text in pair)
    check_texts(texts, services.settings, name="pairs")
    caller = await enter(request, sum(len(source) for source, _ in pairs), parameters.api_key)
    limit = deadline(request)
    inspector = services.inspector
    leg = inspector.single_leg(parameters.source, parameters.target, "An alignment")
    cut = between_spaces if parameters.tokenized else word_spans
    aligner = TextAligner(inspector, leg, parameters.method, cut, caller, sum(map(len, texts)))
    async with asyncio.timeout_at(limit):
        longest = sorted([sum(map(token_estimate, pair)) for pair in pairs])[-PAIRS_AT_ONCE:]
        with inspector.admit(caller, limit, sum(longest)):
            work = [aligner.align(*pair, f"pair {number}") for number, pair in enumerate(pairs)]
            aligned = await gather_or_cancel(work)
    return json_response({"model": leg.model.name, "method": aligner.method, "pairs": aligned})
