"""POST /score, POST /trace, GET /model: forced scoring, the steps of a search, and the shape of the model."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import Any

from fastapi import APIRouter, Depends
from pydantic import Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.analysis.attention_alignment import AlignmentChoice
from model.model_folder import FolderError, ModelFolder, read_folder
from model.search.options import DecodingOptions, Hypothesis, TraceStep
from server.api import parameters
from server.api.dependencies import caller, counted, json_response, services_of
from server.api.openapi import documented, documented_query
from server.api.routes.attention import MASK_LIMIT, side
from server.api.routes.translate import check_texts
from server.api.schemas import Code, OptionalFloat, OptionalInt, Schema
from server.errors import NotFound, TextTooLong, Unavailable
from server.inspection.inspector import InspectionOptions, InspectionResult
from server.inspection.search_trace import SearchTrace, trace_search
from server.translation.types import TranslationRequest

router = APIRouter(tags=["look inside"], dependencies=[Depends(counted)])
SCORED_LIMIT = 16
"""Translations scored by one request."""

_MASK = Field(
    default=None, max_length=MASK_LIMIT, description="Heads to switch off, kind.layer.head each, separated by commas."
)


class ScoreParameters(Schema):
    q: StrictStr = Field(description="One sentence.", examples=["The cat sleeps."])
    translation: StrictStr | list[StrictStr] = Field(
        description=f"A translation of it, or up to {SCORED_LIMIT}.", examples=["Die Katze schläft."]
    )
    source: Code = Field(description="Language of q.", examples=["en"])
    target: Code = Field(description="Language of the translations.", examples=["de"])
    masked_heads: StrictStr | None = _MASK


class TraceParameters(Schema):
    q: StrictStr = Field(description="Text to translate.", examples=["The cat sleeps."])
    source: Code = Field(description="Language of q, or `auto`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    sentence: int = Field(default=0, ge=0, description="Which sentence of the text, counted from 0.")
    beam_size: OptionalInt = Field(default=None, ge=1, le=32, description="Beam width; 1 is greedy.")
    length_penalty: OptionalFloat = Field(default=None, ge=0, le=5, description="GNMT length penalty alpha.")
    masked_heads: StrictStr | None = _MASK


class ModelParameters(Schema):
    source: StrictStr = Field(max_length=32, description="Source language.", examples=["en"])
    target: StrictStr = Field(max_length=32, description="Target language.", examples=["de"])


@router.post("/score", **documented("Log-probability of given translations", ScoreParameters, dict[str, Any]))
async def score(request: Request) -> Response:
    services = services_of(request)
    asked = await parameters.read(request, ScoreParameters)
    given = [asked.translation] if isinstance(asked.translation, str) else asked.translation
    if len(given) > SCORED_LIMIT:
        raise TextTooLong(f"At most {SCORED_LIMIT} translations are scored at once.")
    check_texts((asked.q,), services.settings)
    check_texts(tuple(given), services.settings)
    deadline = parameters.deadline(request, services.settings.timeout_seconds)
    options = InspectionOptions(masked_heads=parameters.head_mask(asked.masked_heads))
    results = [
        await services.inspector.attend(
            services.inspector.given(asked.q, text, asked.source, asked.target), options, deadline
        )
        for text in given
    ]
    scores = [scored(result) for result in results]
    body = {"model": results[0].subject.leg.model.name, "source": side(results[0].source_text, results[0].source)}
    return json_response(body | {"scores": scores if isinstance(asked.translation, list) else scores[0]})


@router.post("/trace", **documented("Every step of decoding one sentence", TraceParameters, dict[str, Any]))
async def traced(request: Request) -> Response:
    services = services_of(request)
    asked = await parameters.read(request, TraceParameters)
    check_texts((asked.q,), services.settings)
    options = DecodingOptions(
        beam_size=asked.beam_size or services.settings.beam_size,
        length_penalty=0.6 if asked.length_penalty is None else asked.length_penalty,
        masked_heads=parameters.head_mask(asked.masked_heads),
        loop_guard=True,
    )
    deadline = parameters.deadline(request, services.settings.timeout_seconds)
    wanted = TranslationRequest(
        texts=(asked.q,),
        source=asked.source,
        target=asked.target,
        options=options,
        client=caller(request),
        deadline=deadline,
    )
    return json_response(traced_answer(await trace_search(services.inspector, wanted, asked.sentence)))


@router.get("/model", **documented_query("Shape of the model between two languages", ModelParameters))
async def model(request: Request) -> Response:
    asked = parameters.validated(ModelParameters, parameters.pairs(request.scope["query_string"]))
    catalog = services_of(request).translator.catalog
    route = catalog.route(catalog.source(asked.source), catalog.target(asked.target))
    if not route:
        raise NotFound("Source and target language are the same; no model is needed.")
    try:
        folders = [await asyncio.to_thread(read_folder, leg.model.folder) for leg in route]
    except FolderError:
        raise Unavailable("The model's folder cannot be read.") from None
    models = [described(folder, leg.source, leg.target) for folder, leg in zip(folders, route, strict=True)]
    return json_response({"legs": models})


def scored(result: InspectionResult) -> dict[str, Any]:
    """One translation with the natural log-probability of each piece and of their sum."""
    scores = result.scores
    total = math.fsum(scores)
    return side(result.target_text, result.target) | {
        "scores": scores,
        "score": total,
        "average": total / len(scores),
        "perplexity": math.exp(min(700.0, -total / len(scores))),
        "candidates": result.candidates,
    }


def traced_answer(found: SearchTrace) -> dict[str, Any]:
    """The search step by step. Rows are numbered from 0 within a step; `parent` is a row of the step before."""
    tokenizer = found.leg.model.tokenizer
    encoding = tokenizer.encode(found.source_text, found.leg.target)
    return {
        "model": found.leg.model.name,
        "language": {"source": found.leg.source, "target": found.leg.target},
        "sentence": found.sentence,
        "sentences": found.sentences,
        "source": {"text": found.source_text, "pieces": encoding.pieces, "offsets": encoding.offsets},
        "steps": [step_answer(found, step) for step in found.answer.trace],
        "hypotheses": [hypothesis_answer(found, hypothesis) for hypothesis in found.answer.hypotheses],
    }


def step_answer(found: SearchTrace, step: TraceStep) -> dict[str, Any]:
    return {
        "rows": [[(found.piece(token), score) for token, score in row] for row in step.beams],
        "chosen": [
            {"parent": parent, "piece": found.piece(token), "total": total} for parent, token, total in step.chosen
        ],
        "finished": [{"parent": parent, "total": total} for parent, _, total in step.finished],
    }


def hypothesis_answer(found: SearchTrace, hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "text": found.text(hypothesis),
        "pieces": [found.piece(token) for token in hypothesis.tokens],
        "scores": hypothesis.token_scores,
        "score": hypothesis.score,
        "finish_reason": hypothesis.finish_reason,
    }


def described(folder: ModelFolder, source: str, target: str) -> dict[str, Any]:
    """A model's own config with the way it is used here."""
    choice = AlignmentChoice.load(folder.path, folder.model.decoder_layers)
    return {
        "name": folder.name,
        "source": source,
        "target": target,
        "license": folder.license,
        "config": dataclasses.asdict(folder.model) | {"head_dim": folder.model.head_dim},
        "alignment": dataclasses.asdict(choice),
    }
