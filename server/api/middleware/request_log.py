"""Request ids, one log line and one metric per request, fixed headers, and a response to every exception."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import ErrorResponses
from server.api.request_headers import HEADERS, sent_method
from server.observability.logging import log_event, request_id
from server.observability.metrics import Metrics

log = logging.getLogger("server.access")
ID = re.compile(rb"[A-Za-z0-9._:\-]{1,64}")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_CLOSED = 499
"""Status in log and metrics of a request whose client disconnected before the response, as in nginx."""
VARY = (b"vary", b"Origin")
"""Responses have headers of CORS only where the request has an `Origin`."""
FIXED_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
FIXED_WITHOUT_HTML = [*FIXED_HEADERS, (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")]
FIXED_NAMES = frozenset(name for name, _ in FIXED_WITHOUT_HTML)


class RequestLog:
    """Gives each request an id, which is the header `X-Request-Id` if it matches `ID`, and logs its end."""

    def __init__(self, app: ASGIApp, metrics: Metrics, responses: ErrorResponses) -> None:
        self.app = app
        self.metrics = metrics
        self.responses = responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        identity = request_identity(scope)
        token = request_id.set(identity)
        status = CLIENT_CLOSED
        closed = False

        async def send_observed(message: Message) -> None:
            nonlocal status, closed
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = with_own(message.get("headers", ()), identity, scope["path"])
            elif not closed and not message.get("more_body", False):
                closed = True  # before the last message, so that a client with the whole response finds it counted
                self._close(scope, status, began, identity)
            await send(message)

        try:
            try:
                await self.app(scope, receive, send_observed)
            except Exception as error:
                if status != CLIENT_CLOSED:  # the response has begun and can only be aborted
                    self.responses.response(scope["path"], error)
                    raise
                await self.responses.response(scope["path"], error)(scope, receive, send_observed)
        finally:
            if not closed:
                self._close(scope, status, began, identity)
            request_id.reset(token)

    def _close(self, scope: Scope, status: int, began: float, identity: str) -> None:
        """Counts and logs a request that began at `began` of time.perf_counter()."""
        seconds = time.perf_counter() - began
        route = getattr(scope.get("route"), "path", "unmatched")
        sent = sent_method(scope)
        method = sent if sent in METHODS else "other"
        self.metrics.http(route, method, status, seconds)
        quiet = route in ("/health", "/ready", "/metrics") and status < 400
        details = {
            "route": route,
            "method": method,
            "status": status,
            "seconds": round(seconds, 6),
            "request_id": identity,
        }
        log_event(log, logging.DEBUG if quiet else logging.INFO, "request", details)


def request_identity(scope: Scope) -> str:
    """Returns the id of the request: the caller's, or a random one."""
    given = scope[HEADERS].get(b"x-request-id")
    return given.decode() if given is not None and ID.fullmatch(given) else os.urandom(16).hex()


def with_own(headers: Sequence[tuple[bytes, bytes]], identity: str, path: str) -> list[tuple[bytes, bytes]]:
    """Returns the headers of a response with the request's id and the fixed headers that the route did not set.

    Responses that are not HTML get a Content-Security-Policy that denies everything.
    """
    present = dict(headers)  # ASGI's names are in small letters
    fixed = FIXED_HEADERS if present.get(b"content-type", b"").startswith(b"text/html") else FIXED_WITHOUT_HTML
    if not present.keys().isdisjoint(FIXED_NAMES):
        fixed = [header for header in fixed if header[0] not in present]
    if path.startswith("/v2/"):  # DeepL's clients read this name
        fixed = [(b"x-trace-id", identity.encode()), *fixed]
    return [*headers, (b"x-request-id", identity.encode()), VARY, *fixed]
