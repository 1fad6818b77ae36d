"""The headers of a request by name, made once per request, and its method as it was sent."""

from __future__ import annotations

from starlette.types import Scope

HEADERS = "attentive.headers"
"""Key of the ASGI scope that holds the headers by name."""
SENT_METHOD = "attentive.method"
"""Key of the ASGI scope that holds the method of a request that is handled as another one."""


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Returns the headers of a request by their names in small letters. A repeated one has its first value."""
    try:
        found: dict[bytes, bytes] = scope[HEADERS]
    except KeyError:
        found = scope[HEADERS] = dict(reversed(scope["headers"]))
    return found


def sent_method(scope: Scope) -> str:
    """Returns the method that the client sent: HEAD, where the request is handled as a GET."""
    method: str = scope.get(SENT_METHOD) or scope["method"]
    return method
