"""Functions that routes share: the services, the caller, admission by API key, and JSON responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from server.access.authentication import Caller
from server.api.parameters import Model, ParameterReader, merged, validated
from server.services import Services
from server.text.language_id import accepted_languages
from server.translation.types import Storage

CALLER = "attentive.caller"
"""Key of the ASGI scope that holds the caller that `enter` identified."""


class CountedReader(ParameterReader[Model]):
    """Reads parameters like ParameterReader, after counting the request and the characters of `q` for its caller.

    The request is counted before validation, so that invalid requests count too.
    """

    async def __call__(self, request: Request) -> Model:
        """Raises Forbidden, Overloaded, TextTooLong, InvalidRequest or UnsupportedMediaType."""
        values = await merged(request)
        await count(request, values)
        return validated(self.model, values)


def services_of(request: Request) -> Services:
    """Returns the Services object of the application."""
    services: Services = request.app.state["services"]
    return services


def caller(request: Request) -> Caller:
    """Returns the caller that `enter` identified."""
    identified: Caller = request.scope[CALLER]
    return identified


async def enter(request: Request, characters: int = 0, api_key: str | None = None, requests: int = 1) -> Caller:
    """Checks the caller's key, counts the request and its characters, and returns the caller.

    The key may also be in the header `Authorization` after any scheme (Bearer, DeepL-Auth-Key). Raises Forbidden,
    Overloaded or TextTooLong.
    """
    services = services_of(request)
    client = request.scope.get("client")
    identified = await services.authenticator.identify(api_key or header_key(request), client[0] if client else "")
    await services.rate_limiter.count(identified, requests, characters)
    request.scope[CALLER] = identified
    return identified


async def count(request: Request, values: Mapping[str, Any]) -> None:
    """Like `enter`, with the key and the text of parameters that are not validated yet."""
    key, text = values.get("api_key"), values.get("q")
    await enter(request, len(text) if isinstance(text, str) else 0, key if isinstance(key, str) else None)


def header_key(request: Request) -> str | None:
    """Returns the key in the header `Authorization`, or None."""
    given = request.headers.get("authorization")
    return given.strip().partition(" ")[2].strip() or None if given else None


def storage_of(request: Request, caller: Caller) -> Storage:
    """Returns what may be stored of a request and taken from the cache, by its caller's key and its `Cache-Control`:
    with no-store nothing is stored, and with no-cache the text is translated again."""
    if not caller.remembered:
        return "none"
    control = ",".join(request.headers.getlist("cache-control")).lower()
    directives = {directive.strip() for directive in control.split(",")}
    return "none" if "no-store" in directives else "renew" if "no-cache" in directives else "use"


def reader_languages(request: Request) -> tuple[str, ...]:
    """Returns the codes of the header `Accept-Language`."""
    return accepted_languages(request.headers.get("accept-language"))


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns a JSON response; numpy arrays and dataclasses are serialized."""
    return Response(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")
