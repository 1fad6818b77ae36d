"""GET /encoder: what the layers of a model's encoder do with a sentence."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import check_texts, deadline, enter, json_response, services_of
from server.api.openapi import WORK, errors
from server.api.parameters import ParameterRoute
from server.api.schemas.encoder import EncoderAnswer, EncoderParameters
from server.inspection.encoder_study import study_encoder

router = APIRouter(tags=["attention"], route_class=ParameterRoute)


@router.get(
    "/encoder",
    summary="Residual, feed-forward units and positions in the layers of an encoder",
    response_model=EncoderAnswer,
    responses=errors(*WORK),
)
async def encoder(request: Request, parameters: Annotated[EncoderParameters, Query()]) -> Response:
    """Computed in float32 from the weights of the model. The answer has the numbers of one sentence, and of the same
    words in reverse order with and without positions."""
    services = services_of(request)
    check_texts((parameters.q,), services.settings)
    await enter(request, len(parameters.q), parameters.api_key)
    limit = deadline(request, services.settings.timeout_seconds)
    study = await study_encoder(services.inspector, parameters.q, parameters.source, parameters.target, limit)
    return json_response(study)
