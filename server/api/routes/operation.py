"""GET /health, GET /ready, GET /metrics and POST /admin/reload, for operators and their tools."""

from __future__ import annotations

import dataclasses
import hmac
import re
from typing import Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from server.api.dependencies import json_response, services_of
from server.api.openapi import content, errors
from server.api.schemas.base import Answer
from server.engine.client.status import DeviceStatus
from server.errors import Forbidden, InvalidRequest, SettingsError
from server.observability.metrics import CONTENT_TYPE
from server.version import server_version

router = APIRouter(tags=["operation"])
FOLDERS = re.compile(r"""[^\s'"]*/(?=[^\s'"])""")
NO_ADMIN_KEY = (
    "This server has no admin key: start it with --admin-key (ATTENTIVE_ADMIN_KEY), or send SIGHUP to reload."
)
WRONG_ADMIN_KEY = "Send the key of --admin-key (ATTENTIVE_ADMIN_KEY) in the header 'Authorization: Bearer KEY'."


class ReadyAnswer(Answer):
    status: Literal["starting", "ready", "draining", "failed"]
    version: str
    device: str
    dtype: str
    engine: str = Field(description="Decode path, and why a faster one is not in use.")
    details: dict[str, str] = Field(description="Further settings of the worker.")
    restarts: int = Field(description="Restarts of all workers since the start.")
    workers: list[DeviceStatus]
    models: list[str] = Field(description="Models that are served now.")
    errors: dict[str, str] = Field(description="Models that could not be loaded, with one sentence.")


class ReloadAnswer(Answer):
    """Names of models."""

    added: list[str]
    replaced: list[str]
    removed: list[str]
    failed: list[str] = Field(description="Their predecessors are still served, if any.")
    errors: dict[str, str] = Field(description="The reason of each failure.")


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
    failed = {key.partition("@")[0]: error for key, error in status.errors.items() if catalog.model(key) is not None}
    body = {
        "status": readiness,
        "version": server_version(),
        "device": status.device,
        "dtype": status.dtype,
        "engine": status.engine,
        "details": without_folders(status.details),
        "restarts": status.restarts,
        "workers": [dataclasses.asdict(worker) for worker in status.workers],
        "models": sorted(key.partition("@")[0] for key in status.models),
        "errors": without_folders(failed | services.models.errors),
    }
    return json_response(body) if readiness == "ready" else json_response(body, 503, {"Retry-After": "1"})


@router.get(
    "/metrics",
    summary="Metrics in the text format of Prometheus",
    response_class=PlainTextResponse,
    responses={200: content("text/plain")},
)
async def metrics(request: Request) -> Response:
    return Response(services_of(request).metrics.render(), headers={"Content-Type": CONTENT_TYPE})


@router.post(
    "/admin/reload",
    summary="Load the models that are in the weights folder now",
    response_model=ReloadAnswer,
    responses=errors(400, 403),
)
async def reload(request: Request) -> Response:
    """Requires the admin key as `Authorization: Bearer KEY`. Requests in progress are not interrupted."""
    services = services_of(request)
    expected = services.settings.admin_key
    if not expected:
        raise Forbidden(NO_ADMIN_KEY)
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), expected.encode()):
        raise Forbidden(WRONG_ADMIN_KEY)
    try:
        return json_response(await services.models.reload())
    except SettingsError as error:
        raise InvalidRequest(str(error)) from None


def without_folders(sentences: dict[str, str]) -> dict[str, str]:
    """Returns the sentences with the names of files only, because GET /ready needs no key."""
    return {name: FOLDERS.sub("", sentence) for name, sentence in sentences.items()}
