"""GET /health, GET /ready and GET /metrics, for operators and their tools."""

from __future__ import annotations

import dataclasses
import re

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from server.api.dependencies import json_response, services_of
from server.api.openapi import content
from server.api.schemas.operation import METRICS_EXAMPLE, ReadyAnswer
from server.observability.metrics import CONTENT_TYPE
from server.version import server_version

router = APIRouter(tags=["operation"])
FOLDERS = re.compile(r"""[^\s'"]*/(?=[^\s'"])""")


@router.get("/health", summary="Check that the process is alive", response_model=dict[str, str])
async def health() -> Response:
    return json_response({"status": "ok"})


@router.get(
    "/ready",
    summary="Check that translations are served",
    response_model=ReadyAnswer,
    responses={503: {"model": ReadyAnswer, "description": "Translations are not served now."}},
)
async def ready(request: Request) -> Response:
    services = services_of(request)
    readiness = services.readiness()
    status = services.engine.status()
    catalog = services.translator.catalog
    errors = {key.partition("@")[0]: error for key, error in status.errors.items() if catalog.model(key) is not None}
    body = {
        "status": readiness.state,
        "version": server_version(),
        "device": status.device,
        "dtype": status.dtype,
        "engine": status.engine,
        "details": without_folders(status.details),
        "restarts": status.restarts,
        "workers": [dataclasses.asdict(worker) for worker in status.workers],
        "models": sorted(key.partition("@")[0] for key in status.models),
        "errors": without_folders(errors | services.models.errors),
    }
    return json_response(body, 200 if readiness.ready else 503, {} if readiness.ready else {"Retry-After": "1"})


@router.get(
    "/metrics",
    summary="Metrics in the text format of Prometheus",
    response_class=PlainTextResponse,
    responses={200: content({"text/plain": METRICS_EXAMPLE})},
)
async def metrics(request: Request) -> Response:
    return Response(services_of(request).metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def without_folders(sentences: dict[str, str]) -> dict[str, str]:
    """Returns the sentences with the names of files only, because GET /ready needs no key."""
    return {name: FOLDERS.sub("", sentence) for name, sentence in sentences.items()}
