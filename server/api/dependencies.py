"""What a route needs of its surroundings: the services, and who is calling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from server.api import parameters
from server.api.negotiation import preferred
from server.services import Services


def services_of(request: Request) -> Services:
    """The one Services object of the application."""
    services: Services = request.app.state.services
    return services


def caller(request: Request) -> str:
    """The caller's address, for fairness between callers."""
    return request.client.host if request.client else ""


async def enter(request: Request, characters: int = 0, api_key: str | None = None, requests: int = 1) -> str:
    """Lets the caller in, counts the request and its characters, and returns an opaque name, for fairness between
    callers.

    The key may also stand in the header `Authorization` after any scheme (Bearer, DeepL-Auth-Key). Raises Forbidden,
    Overloaded or TextTooLong.
    """
    address = request.client.host if request.client else ""
    services = services_of(request)
    identified = services.authenticator.identify(api_key or header_key(request), address)
    await services.rate_limiter.count(identified, requests, characters)
    return identified.name


async def counted(request: Request) -> None:
    """A dependency for routes that look inside: lets the caller in and counts the request. The page itself is free."""
    asked = await parameters.raw(request)
    if request.url.path == "/attention" and wants_page(request, asked):
        return
    key, text = asked.get("api_key"), asked.get("q")
    characters = len(text) if isinstance(text, str) else 0
    await enter(request, characters, key if isinstance(key, str) else None)


def wants_page(request: Request, asked: Mapping[str, Any]) -> bool:
    """Whether a browser asks for the explorer rather than for what it shows."""
    accept = request.headers.get("accept", "")
    return "format" not in asked and preferred(accept, ("application/json", "text/html")) == "text/html"


def header_key(request: Request) -> str | None:
    """The key in the header `Authorization`, if there is one."""
    return (parameters.header(request, b"authorization") or "").strip().partition(" ")[2].strip() or None


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer, numpy arrays included."""
    return Response(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")
