"""GET /encoder: what the layers of a model's encoder do with a sentence."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from model.convert.sample_sentences import SENTENCES
from server.api.dependencies import deadline, enter, json_response, services_of
from server.api.openapi import WORK, errors
from server.api.parameters import ParameterReader
from server.api.routes.translate import check_texts
from server.api.schemas.encoder import EncoderAnswer, EncoderParameters
from server.inspection.encoder_study import EncoderStudy, LayerStudy, study_encoder

router = APIRouter(tags=["attention"])


@router.get(
    "/encoder",
    summary="Residual, feed-forward units and positions in the layers of an encoder",
    response_model=EncoderAnswer,
    responses=errors(*WORK),
)
async def encoder(
    request: Request, parameters: Annotated[EncoderParameters, Depends(ParameterReader(EncoderParameters))]
) -> Response:
    """Computed in float32 from the weights of the model. The answer has the numbers of one sentence, and of the same
    words in reverse order with and without positions."""
    services = services_of(request)
    check_texts((parameters.q,), services.settings)
    await enter(request, len(parameters.q), parameters.api_key)
    limit = deadline(request, services.settings.timeout_seconds)
    return json_response(
        answer(await study_encoder(services.inspector, parameters.q, parameters.source, parameters.target, limit))
    )


def answer(study: EncoderStudy) -> dict[str, Any]:
    """Returns a study as in EncoderAnswer."""
    fit = None
    if study.position_fit is not None:
        fit = {
            "sentences": len(SENTENCES[study.leg.source]),
            "with_positions": study.position_fit,
            "without_positions": study.position_fit_without,
        }
    return {
        "model": study.leg.model.name,
        "language": {"source": study.leg.source, "target": study.leg.target},
        "source": {"text": study.text, "pieces": study.encoding.pieces, "offsets": study.encoding.offsets},
        "layers": [layer_answer(layer) for layer in study.layers],
        "order": {
            "pieces": study.order,
            "moved": study.moved,
            "moved_without_positions": study.moved_without_positions,
        },
        "position_fit": fit,
    }


def layer_answer(layer: LayerStudy) -> dict[str, Any]:
    record = layer.record
    return {
        "carried_past_attention": record.carried_past_attention,
        "attention": record.attention,
        "carried_past_feed_forward": record.carried_past_feed_forward,
        "feed_forward": record.feed_forward,
        "active": layer.active,
        "units": [{"unit": unit.unit, "pieces": unit.pieces} for unit in layer.units],
    }
