"""For those who operate the server: liveness, readiness, metrics."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api.dependencies import json_response, services_of
from server.observability.metrics import CONTENT_TYPE
from server.version import server_version

router = APIRouter(tags=["operation"])


@router.get("/health", summary="Whether the process is alive")
async def health() -> Response:
    return json_response({"status": "ok"})


@router.get(
    "/ready", summary="Whether translations are served: 200 or 503", responses={503: {"description": "Not now"}}
)
async def ready(request: Request) -> Response:
    services = services_of(request)
    readiness = services.readiness()
    status = services.engine.status()
    body = {
        "status": readiness.state,
        "version": server_version(),
        "device": status.device,
        "dtype": status.dtype,
        "engine": status.engine,
        "details": status.details,
        "restarts": status.restarts,
        "workers": [dataclasses.asdict(worker) for worker in status.workers],
        "models": sorted(key.partition("@")[0] for key in status.models),
        "errors": {key.partition("@")[0]: error for key, error in status.errors.items()} | services.models.errors,
    }
    return json_response(body, 200 if readiness.ready else 503, {} if readiness.ready else {"Retry-After": "1"})


@router.get("/metrics", summary="Metrics in Prometheus' text format")
async def metrics(request: Request) -> Response:
    return Response(services_of(request).metrics.render(), headers={"Content-Type": CONTENT_TYPE})
