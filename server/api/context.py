"""What a route needs of its surroundings: the services, and who is calling."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from server.services import Services


def services_of(request: Request) -> Services:
    """The one Services object of the application."""
    services: Services = request.app.state.services
    return services


def caller(request: Request, api_key: str | None = None) -> str:
    """An opaque name for the caller, for fairness between callers: from the key where there is one, else the
    address."""
    if api_key:
        return hashlib.sha256(api_key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return request.client.host if request.client else ""


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer, numpy arrays included."""
    return Response(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")
