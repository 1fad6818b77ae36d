"""The routes of operators and their tools: GET /health, /ready and /metrics, POST /admin/reload, and
GET, POST and DELETE /admin/models."""

from __future__ import annotations

import dataclasses
import hmac
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field, StrictStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from model.convert.published import PublishedModel, published_models
from server import server_version
from server.api.dependencies import json_response, services_of
from server.api.openapi import content, errors
from server.api.parameters import ParameterRoute
from server.api.schemas.base import Answer, OptionalCode, Parameters
from server.engine.client.status import DeviceStatus, without_folders
from server.errors import Forbidden, InvalidRequest, SettingsError
from server.models.pulls import Pull
from server.observability.metrics import CONTENT_TYPE

router = APIRouter(tags=["operation"], route_class=ParameterRoute)


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


WRONG_ADMIN_KEY = (
    "Send the key of --admin-key (ATTENTIVE_ADMIN_KEY) in the header 'Authorization: Bearer KEY'."
)
NOT_HERE = (
    "Without an admin key (--admin-key, ATTENTIVE_ADMIN_KEY) this is allowed only from the same "
    "machine, on a server without API keys."
)
FOREIGN = "Pages of other websites must not manage this server."
LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]+)?")
PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers of proxies, whose clients are elsewhere."""


class ReloadAnswer(Answer):
    """Names of models."""

    added: list[str]
    replaced: list[str]
    removed: list[str]
    failed: list[str] = Field(description="Their predecessors are still served, if any.")
    errors: dict[str, str] = Field(description="The reason of each failure.")


class PairParameters(Parameters):
    source: OptionalCode = Field(default=None, description="Source language of published models.")
    target: OptionalCode = Field(default=None, description="Target language of published models.")


class ModelParameters(Parameters):
    name: StrictStr = Field(
        max_length=300,
        description="A pair, or a name as `attentive pull` takes it.",
        examples=["firefox/en-de"],
    )


class ModelsAnswer(Answer):
    pulled: list[str] = Field(
        description="Models that were downloaded by name, and may be deleted."
    )
    pulls: list[Pull] = Field(description="Models that are being downloaded.")
    available: list[PublishedModel] = Field(
        description="Published models of the pair, or of all pairs; the best first."
    )
    stronger: str = Field(
        description="The best of them, where the embedded model or none serves the pair; else "
        "empty."
    )


@router.post(
    "/admin/reload",
    summary="Load the models that are in the weights folder now",
    response_model=ReloadAnswer,
    responses=errors(400, 403),
)
async def reload(request: Request) -> Response:
    """Requires the admin key as `Authorization: Bearer KEY`, or on a server without keys a request
    from the same machine. Requests in progress are not interrupted."""
    check_operator(request)
    try:
        return json_response(await services_of(request).models.reload())
    except SettingsError as error:
        raise InvalidRequest(str(error)) from None


@router.get(
    "/admin/models", summary="List models", response_model=ModelsAnswer, responses=errors(400, 403)
)
async def list_models(request: Request, parameters: PairParameters) -> Response:
    """Requires what POST /admin/reload does. GET /languages names the models that are served."""
    check_operator(request)
    services = services_of(request)
    models, pair = services.models.catalog.models, (parameters.source, parameters.target)
    available = [
        model
        for model in published_models()
        if pair in ((model.source, model.target), (None, None))
    ]
    strong = any(model.preference >= 0 and pair in model.pairs for model in models)
    body = {
        "pulled": [model.name for model in models if services.pulls.is_pulled(model)],
        "pulls": list(services.pulls.pulls.values()),
        "available": available,
        "stronger": available[0].name if available and None not in pair and not strong else "",
    }
    return json_response(body)


@router.post(
    "/admin/models",
    summary="Download a model and serve it",
    response_model=Pull,
    status_code=202,
    responses=errors(400, 403),
)
async def add_model(request: Request, parameters: ModelParameters) -> Response:
    """Downloads the model in the background; GET /admin/models has the progress. Requires what POST
    /admin/reload does."""
    check_operator(request)
    return json_response(await services_of(request).pulls.add(parameters.name), 202)


@router.delete(
    "/admin/models/{name}",
    summary="Delete a downloaded model, or end its download",
    response_model=dict[str, Any],
    responses=errors(400, 403, 404),
)
async def delete_model(
    request: Request,
    name: Annotated[str, Path(description="The name of its folder, such as firefox-en-de.")],
) -> Response:
    """Requires what POST /admin/reload does. A model of --models is downloaded again at the next
    start."""
    check_operator(request)
    await services_of(request).pulls.delete(name)
    return json_response({})


def check_operator(request: Request) -> None:
    """Raises Forbidden unless the request has the admin key or, on a server without keys, comes
    from this machine, and is not from a page of another website.

    Such a page may reach this machine, also under a host name of its own. A proxy on this machine
    forwards requests of others.
    """
    services, headers = services_of(request), request.headers
    host, client = headers.get("host", ""), request.scope.get("client")
    own = {host, services.settings.public_url.partition("://")[2].partition("/")[0] or host}
    site = headers.get("sec-fetch-site", "none")
    if (
        site not in ("none", "same-origin")
        or headers.get("origin", f"//{host}").partition("//")[2] not in own
    ):
        raise Forbidden(FOREIGN)
    if expected := services.settings.admin_key:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            key.strip().encode(), expected.encode()
        ):
            raise Forbidden(WRONG_ADMIN_KEY)
        return
    here = (
        client is not None
        and client[0].removeprefix("::ffff:") in ("127.0.0.1", "::1")
        and LOCAL_HOST.fullmatch(host)
    )
    if not here or any(name in headers for name in PROXIED) or services.authenticator.uses_keys:
        raise Forbidden(NOT_HERE)


def is_operator(request: Request) -> bool:
    try:
        check_operator(request)
    except Forbidden:
        return False
    return True
