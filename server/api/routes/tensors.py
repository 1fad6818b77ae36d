"""GET /attention/tensors: every number between two layers of a translation."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from model.analysis.tensors import TENSORS
from model.analysis.types import Followed
from server.api.attention_formats import lists, subject_body
from server.api.dependencies import deadline, enter, json_response, services_of, storage_of
from server.api.openapi import errors
from server.api.routes.attention import CompressedRoute, inspected_sentence
from server.api.schemas.tensors import TensorAnswer, TensorParameters
from server.inspection.types import InspectionResult

router = APIRouter(tags=["attention"], route_class=CompressedRoute)


@router.get(
    "/attention/tensors",
    summary="Numbers of one layer and head for a translation",
    response_model=TensorAnswer,
    responses=errors(400, 403, 404, 410, 429, 503, 504),
)
async def tensors(request: Request, parameters: Annotated[TensorParameters, Query()]) -> Response:
    """Runs the engine once more over the tokens of an earlier translation (`id`), a new one (`q`,
    `source`, `target`), or a given one (also `translation`)."""
    services = services_of(request)
    limit = deadline(request, services.settings.timeout_seconds)
    caller = await enter(request, len(parameters.q or ""), parameters.api_key)
    subject = await inspected_sentence(parameters, services, caller, storage_of(request, caller), limit)
    followed = Followed(parameters.part, parameters.layer, parameters.head, parameters.position, parameters.names)
    result = await services.inspector.attend(
        subject,
        limit,
        choice=followed.choice,
        vectors_of=followed.vectors_of,
        alignment=False,
        caller=caller,
        masked_heads=parameters.masked_heads,
    )
    return await asyncio.to_thread(_answer, followed, result)


def _answer(followed: Followed, result: InspectionResult) -> Response:
    return json_response(tensor_body(followed, result), headers={"Cache-Control": "private, no-cache"})


def tensor_body(followed: Followed, result: InspectionResult) -> dict[str, Any]:
    """Returns the body as in TensorAnswer."""
    subject, maps = result.subject, result.attention.maps
    queries, keys = result.sides(followed.part)
    values = maps.tensors or {}
    body: dict[str, Any] = {
        **subject_body(subject),
        "exact": result.exact,
        "part": followed.part,
        "layer": followed.layer,
        "head": followed.head,
        "position": followed.position,
        "rows": (queries if followed.side == "encoder" else result.decoder_input).pieces,
        "keys": keys.pieces,
        "source_ids": subject.pair.source,
    }
    if "logits" in values:
        piece = subject.leg.model.tokenizer.piece
        ids = maps.candidate_ids if followed.position is None else maps.candidate_ids[followed.position, None]
        body["candidates"] = [[piece(token) for token in row] for row in ids.tolist()]
    shown = {}
    for name, numbers in values.items():
        tensor = TENSORS[name]
        shown[name] = {
            "axes": tensor.axes,
            "shape": numbers.shape,
            "formula": tensor.formula,
            "values": lists(numbers),
        }
    return body | {"tensors": shown}
