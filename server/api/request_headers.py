"""The headers of a request by name, made once per request, and its method as it was sent."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Scope

HEADERS = "attentive.headers"
"""Key of the ASGI scope under which the application finds the headers by name (`by_name`)."""
SENT_METHOD = "attentive.method"
"""Key of the ASGI scope that holds the method of a request that is handled as another one."""


def by_name(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Returns the headers of an ASGI scope by their names in small letters. A repeated one has its first value."""
    return dict(reversed(headers))


def sent_method(scope: Scope) -> str:
    """Returns the method that the client sent: HEAD, where the request is handled as a GET."""
    method: str = scope.get(SENT_METHOD) or scope["method"]
    return method
