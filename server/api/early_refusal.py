"""Rejects requests before their bodies are parsed while there is no room for them, so that a
rejection costs little."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import Scope

from server.access.authentication import network
from server.api.errors import path_of
from server.api.parameters import ParameterRoute
from server.engine.client.lease import WorkKind
from server.errors import Overloaded
from server.services import Services
from server.translation.translator import BYTES_PER_TOKEN, DOCUMENT_CHARACTERS

REPEATED = "attentive.repeated"
"""Key in ASGI's scope of a hash by which a repeated request is recognised."""
ENVELOPE = 40
"""Bytes of a request without its text, for the estimate of its cost."""


class EarlyRefusal:
    """Returns Overloaded for a request to one of `routes` that would find no room, else None.
    Requests that may be answered from the result cache pass."""

    def __init__(self, services: Services, routes: Sequence[BaseRoute]) -> None:
        self._services = services
        admissions = {"translate": self._text, "translate_file": self._file}
        admissions |= dict.fromkeys(
            ("attention", "tensors", "encoder", "score", "align", "live", "traced"), self._look
        )
        self._routes = {
            (method, route.path): (route, admissions[route.name])
            for route in routes
            if isinstance(route, ParameterRoute) and route.name in admissions
            for method in route.methods or ()
        }

    def _text(self, size: int, caller: str | None, key: int) -> Overloaded | None:
        admission = self._services.translator.admission
        kinds: tuple[WorkKind, ...] = (
            ("short", "document") if size > DOCUMENT_CHARACTERS else ("short",)
        )
        return admission.refusal(max(1, size // BYTES_PER_TOKEN), caller, key, *kinds)

    def _file(self, size: int, caller: str | None, key: int) -> Overloaded | None:
        documents = self._services.documents
        return documents.admission.refusal(documents.cost(size), caller, key, "short")

    def _look(self, size: int, caller: str | None, key: int) -> Overloaded | None:
        admission = self._services.translator.admission
        return admission.refusal(1, caller, None, "look")  # looks are not invited

    def __call__(self, scope: Scope, body: bytes) -> Overloaded | None:
        if (guarded := self._routes.get((scope["method"], path_of(scope)))) is None:
            return None
        (route, refusal), services = guarded, self._services
        size = len(body) + len(scope["query_string"])
        client = scope.get("client")
        address = client[0] if client else ""
        if body.startswith(b"--"):  # a multipart form, whose boundary is another one each time
            body = body.replace(body[: body.find(b"\r\n")], b"")
        scope[REPEATED] = key = hash((address, scope["query_string"], body))
        cache = services.translator.cache
        if cache is not None and cache.noted(key):
            return None
        caller = None if services.authenticator.uses_keys else network(address)
        error = refusal(size - ENVELOPE, caller, key)
        if error is None or (scope["method"] == "GET" and route.is_page(Request(scope))):
            return None
        scope["route"] = route  # for log and metrics
        return error
