"""Rejects short translations before their bodies are parsed while the queue is full, so that a rejection costs little."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from server.access.authentication import network
from server.api.errors import path_of
from server.errors import Overloaded
from server.services import Services
from server.translation.translator import BYTES_PER_TOKEN, DOCUMENT_CHARACTERS

REPEATED = "attentive.repeated"
"""Key in ASGI's scope of the number that a request has when it is sent again."""
ENVELOPE = 40
"""Bytes of a request without its text, for the estimate of its cost."""


class EarlyRefusal:
    """Raises Overloaded for a translation by one of `routes` that would find no room. It passes requests that may be answered
    from the result cache, and large ones, which have a room of their own."""

    def __init__(self, services: Services, routes: Sequence[BaseRoute]) -> None:
        self._services = services
        self._routes = {route.path: route for route in routes if isinstance(route, Route) and route.name == "translate"}

    def __call__(self, scope: Scope, body: bytes) -> None:
        size = len(body) + len(scope["query_string"])
        route = self._routes.get(path_of(scope))
        if route is None or scope["method"] != "POST" or size > DOCUMENT_CHARACTERS:
            return
        services = self._services
        client = scope.get("client")
        address = client[0] if client else ""
        scope[REPEATED] = key = hash((address, scope["query_string"], body))
        cache = services.translator.cache
        if cache is not None and cache.noted(key):
            return
        caller = None if services.authenticator.uses_keys else network(address)
        try:
            services.translator.admission.refuse_early(max(1, size - ENVELOPE) // BYTES_PER_TOKEN, caller, key)
        except Overloaded as error:
            scope["route"] = route  # for log and metrics
            services.metrics.rejected.labels(error.reason).inc()
            raise
