"""GET /health, GET /ready and GET /metrics, for operators and their tools."""

from __future__ import annotations

import dataclasses
from typing import Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from server.api.dependencies import json_response, services_of
from server.api.openapi import content
from server.api.schemas.base import Answer
from server.engine.client.status import DeviceStatus, without_folders
from server.models.pulls import Pull
from server.observability.metrics import CONTENT_TYPE
from server.version import server_version

router = APIRouter(tags=["operation"])


class ReadyAnswer(Answer):
    status: Literal[
        "starting", "ready", "degraded", "restarting", "frozen", "draining", "failed"
    ] = Field(
        description="degraded: translations are served, and models of --models are missing. "
        "restarting: the worker that had the "
        "models ended; requests wait for the next one. frozen: no worker goes on."
    )
    version: str
    device: str
    dtype: str
    engine: str = Field(description="Decode path, and why a faster one is not in use.")
    details: dict[str, str] = Field(description="Further settings of the worker.")
    restarts: int = Field(description="Restarts of all workers since the start.")
    workers: list[DeviceStatus]
    models: list[str] = Field(description="Models that are served now.")
    errors: dict[str, str] = Field(
        description="Models that could not be loaded, with one sentence."
    )
    missing: list[str] = Field(description="Models of --models that are not served yet.")
    pulls: list[Pull] = Field(description="Models that are being downloaded.")


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
    readiness = services.readiness
    status = services.engine.workers.status()
    catalog = services.translator.catalog
    failed = {
        key.partition("@")[0]: error
        for key, error in status.errors.items()
        if catalog.model(key) is not None
    }
    body = {
        "status": readiness,
        "version": server_version(),
        "device": status.device,
        "dtype": status.dtype,
        "engine": status.engine,
        "details": {name: without_folders(detail) for name, detail in status.details.items()},
        "restarts": status.restarts,
        "workers": [dataclasses.asdict(worker) for worker in status.workers],
        "models": sorted(key.partition("@")[0] for key in status.models),
        "errors": {
            name: without_folders(error)
            for name, error in (failed | services.models.errors).items()
        },
        "missing": services.pulls.missing,
        "pulls": list(services.pulls.pulls.values()),
    }
    served = readiness in ("ready", "degraded")
    return json_response(body) if served else json_response(body, 503, {"Retry-After": "1"})


@router.get(
    "/metrics",
    summary="Metrics in the text format of Prometheus",
    response_class=PlainTextResponse,
    responses={200: content("text/plain")},
)
async def metrics(request: Request) -> Response:
    services = services_of(request)
    await services.collect()
    return Response(services.metrics.render(), headers={"Content-Type": CONTENT_TYPE})
