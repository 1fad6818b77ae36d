"""GET and POST /live: translation of words that are still being typed or spoken."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api.attention_formats import text_pieces
from server.api.dependencies import check_texts, deadline, enter, json_response, services_of
from server.api.openapi import WORK, errors
from server.api.parameters import ParameterRoute
from server.api.routes.pages import html_page
from server.api.schemas.live import LiveAnswer, LiveParameters
from server.inspection.live import LiveTranslation, translate_live

router = APIRouter(tags=["attention"], route_class=ParameterRoute)


@router.get("/live", include_in_schema=False)
async def page(request: Request) -> Response:
    return html_page(request, "live/index.html")


@router.post("/live", summary="Translation of the words so far", response_model=LiveAnswer, responses=errors(*WORK))
async def live(request: Request, parameters: LiveParameters) -> Response:
    """Returns what will not change any more of the translation of an unfinished sentence. The next request has more words and
    the `prefix` of this answer; after a complete sentence it begins behind the `consumed` characters, without a prefix."""
    services = services_of(request)
    check_texts((parameters.q,), services.settings)
    limit = deadline(request, services.settings.timeout_seconds)
    caller = await enter(request, len(parameters.q), parameters.api_key)
    return json_response(
        live_answer(
            await translate_live(
                services.inspector,
                parameters.q,
                parameters.source,
                parameters.target,
                prefix=parameters.prefix,
                wait=parameters.wait,
                final=parameters.final,
                caller=caller,
                deadline=limit,
            )
        )
    )


def live_answer(live: LiveTranslation) -> dict[str, Any]:
    """Returns the translation as in LiveAnswer."""
    result, target = live.result, live.result.target
    return {
        "model": result.subject.leg.model.name,
        "source": text_pieces(result.source),
        "target": text_pieces(target),
        "words": {"source": result.source.words, "target": target.words},
        "aligned": live.aligned,
        "kept": len(target.text[: target.offsets[live.kept - 1][1]].rstrip()) if live.kept else 0,
        "prefix": target.pieces[: live.kept],
        "complete": live.complete,
        "consumed": live.span[1] if live.complete else 0,
    }
