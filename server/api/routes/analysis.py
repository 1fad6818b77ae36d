"""POST /score and /trace, GET /model, /positions and /encoder: forced scores, the steps of a
search, what a model is and does."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from model.analysis.head_roles import HeadRoles
from model.analysis.position_schemes import schemes
from model.analysis.types import SCORES
from model.model_folder import FolderError, ModelFolder, read_folder
from model.search.options import DecodingOptions, Hypothesis, TraceStep
from model.tokenizer import Tokenizer
from server.api.attention_formats import text_pieces
from server.api.dependencies import (
    check_texts,
    deadline,
    enter,
    json_response,
    services_of,
    translation_request,
)
from server.api.openapi import WORK, errors
from server.api.parameters import ParameterRoute
from server.api.schemas.analysis import (
    SCORED_LIMIT,
    EncoderAnswer,
    EncoderParameters,
    ModelAnswer,
    ModelParameters,
    PositionsAnswer,
    PositionsParameters,
    ScoreAnswer,
    ScoreParameters,
    TraceAnswer,
    TraceParameters,
)
from server.engine.ipc.messages import JobResult
from server.errors import NotFound, TextTooLong, Unavailable
from server.inspection.encoder_study import study_encoder
from server.inspection.inspector import trace_search
from server.inspection.types import InspectedSentence, InspectionResult
from server.translation.catalog import Leg

router = APIRouter(tags=["attention"], route_class=ParameterRoute, responses=errors(*WORK))


@router.post("/score", summary="Log-probability of given translations", response_model=ScoreAnswer)
async def score(request: Request, parameters: ScoreParameters) -> Response:
    services = services_of(request)
    translations = (
        [parameters.translation]
        if isinstance(parameters.translation, str)
        else parameters.translation
    )
    if len(translations) > SCORED_LIMIT:
        raise TextTooLong(f"At most {SCORED_LIMIT} translations are scored at once.")
    check_texts((parameters.q,), services.settings)
    check_texts(tuple(translations), services.settings, name="translation")
    caller = await enter(request, len(parameters.q), parameters.api_key)
    limit = deadline(request, services.settings.timeout_seconds)
    inspector = services.inspector
    pairs = [
        inspector.given(parameters.q, text, parameters.source, parameters.target)
        for text in translations
    ]
    heads = parameters.masked_heads or ()
    results = [
        await inspector.attend(
            pair, limit, caller=caller, masked_heads=heads, choice=SCORES, alignment=False
        )
        for pair in pairs
    ]
    first, scores = results[0], [scored(result) for result in results]
    body = {"model": first.subject.leg.model.name, "source": text_pieces(first.source)}
    return json_response(
        body | {"scores": scores if isinstance(parameters.translation, list) else scores[0]}
    )


@router.post(
    "/trace",
    summary="Steps of the search for the translation of one sentence",
    response_model=TraceAnswer,
)
async def traced(request: Request, parameters: TraceParameters) -> Response:
    services = services_of(request)
    options = DecodingOptions(
        beam_size=parameters.beam_size or services.settings.beam_size,
        length_penalty=parameters.length_penalty,
        masked_heads=parameters.masked_heads or (),
        loop_guard=True,
    )
    check_texts((parameters.q,), services.settings, parameters.beam_size or 1)
    caller = await enter(request, len(parameters.q), parameters.api_key)
    work = translation_request(
        request,
        caller,
        texts=(parameters.q,),
        source=parameters.source,
        target=parameters.target,
        options=options,
    )
    subject, answer = await trace_search(services.inspector, work, parameters.sentence, caller)
    return json_response(traced_answer(subject, answer))


@router.get(
    "/model",
    summary="Shape of the model between two languages",
    response_model=ModelAnswer,
    responses=errors(404),
)
async def model(request: Request, parameters: Annotated[ModelParameters, Query()]) -> Response:
    await enter(request, 0, parameters.api_key)
    route = services_of(request).translator.catalog.route(parameters.source, parameters.target)
    read = await folders(route)
    heads = services_of(request).inspector.heads
    roles = [
        heads.with_losses(leg.model, await asyncio.to_thread(HeadRoles.read, leg.model.folder))
        for leg in route
    ]
    models = [described(*parts) for parts in zip(read, route, roles, strict=True)]
    return json_response({"legs": models})


@router.get(
    "/positions",
    summary="How models tell positions apart",
    response_model=PositionsAnswer,
    responses=errors(404),
)
async def positions(
    request: Request, parameters: Annotated[PositionsParameters, Query()]
) -> Response:
    """Sinusoids, learned vectors before the training, rotary positions, ALiBi and a restricted
    neighbourhood, in the shape of the model between two languages."""
    await enter(request, 0, parameters.api_key)
    [folder, *_] = await folders(
        services_of(request).translator.catalog.route(parameters.source, parameters.target)
    )
    shown = schemes(folder.model, parameters.n, parameters.r)
    body = {"n": parameters.n, "r": parameters.r, "own": folder.model.positions}
    return json_response(
        body | {"schemes": {name: scheme._asdict() for name, scheme in shown.items()}}
    )


async def folders(route: Sequence[Leg]) -> list[ModelFolder]:
    """Returns the model folders of a route. Raises NotFound if it has none, Unavailable."""
    if not route:
        raise NotFound("Source and target language are the same; no model is needed.")
    try:
        return [await asyncio.to_thread(read_folder, leg.model.folder) for leg in route]
    except FolderError:
        raise Unavailable("The model's folder cannot be read.") from None


@router.get(
    "/encoder",
    summary="What the layers of an encoder do with a sentence",
    response_model=EncoderAnswer,
)
async def encoder(request: Request, parameters: Annotated[EncoderParameters, Query()]) -> Response:
    """Computed in float32 from the weights of the model, with positions and without."""
    services = services_of(request)
    check_texts((parameters.q,), services.settings)
    caller = await enter(request, len(parameters.q), parameters.api_key)
    limit = deadline(request, services.settings.timeout_seconds)
    inspector = services.inspector
    study = await study_encoder(
        inspector, parameters.q, parameters.source, parameters.target, limit, caller
    )
    return json_response(study)


def scored(result: InspectionResult) -> dict[str, Any]:
    """Returns one translation as in ScoredTranslation."""
    scores = result.scores
    total = math.fsum(scores)
    return text_pieces(result.target) | {
        "scores": scores,
        "score": total,
        "average": total / len(scores),
        "perplexity": math.exp(min(700.0, -total / len(scores))),
        "candidates": result.candidates,
        "outside": result.attention.maps.outside,
    }


def traced_answer(subject: InspectedSentence, answer: JobResult) -> dict[str, Any]:
    """Returns the search step by step as in TraceAnswer."""
    leg, text = subject.leg, subject.pair.source_text
    encoding, tokenizer = leg.encode(text), leg.model.tokenizer
    return {
        "model": leg.model.name,
        "language": {"source": leg.source, "target": leg.target},
        "sentence": subject.sentence,
        "sentences": subject.sentences,
        "source": {"text": text, "pieces": encoding.pieces, "offsets": encoding.offsets},
        "steps": [step_answer(tokenizer, step) for step in answer.trace],
        "hypotheses": [
            hypothesis_answer(tokenizer, hypothesis) for hypothesis in answer.hypotheses
        ],
    }


def step_answer(tokenizer: Tokenizer, step: TraceStep) -> dict[str, Any]:
    return {
        "rows": [[(tokenizer.piece(token), score) for token, score in row] for row in step.beams],
        "chosen": [
            {"parent": parent, "piece": tokenizer.piece(token), "total": total}
            for parent, token, total in step.chosen
        ],
        "finished": [{"parent": parent, "total": total} for parent, _, total in step.finished],
    }


def hypothesis_answer(tokenizer: Tokenizer, hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "text": tokenizer.decode(hypothesis.tokens),
        "pieces": [tokenizer.piece(token) for token in hypothesis.tokens],
        "scores": hypothesis.token_scores,
        "score": hypothesis.score,
        "finish_reason": hypothesis.finish_reason,
    }


def described(folder: ModelFolder, leg: Leg, roles: HeadRoles | None) -> dict[str, Any]:
    """Returns a model's configuration and its use as in ModelLeg."""
    return {
        "name": folder.name,
        "source": leg.source,
        "target": leg.target,
        "license": folder.license,
        "config": dataclasses.asdict(folder.model) | {"head_dim": folder.model.head_dim},
        "alignment": dataclasses.asdict(leg.model.alignment),
        "roles": None
        if roles is None
        else {
            name: getattr(roles, name) for name in ("sentences", "directions", "heads", "losses")
        },
    }
