"""The headers of a request by name, made once per request."""

from __future__ import annotations

from starlette.types import Scope

HEADERS = "attentive.headers"
"""Key of the ASGI scope that holds the headers by name."""


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Returns the headers of a request by their names in small letters. A repeated one has its first value."""
    found: dict[bytes, bytes] | None = scope.get(HEADERS)
    if found is None:
        found = scope[HEADERS] = dict(reversed(scope["headers"]))
    return found
