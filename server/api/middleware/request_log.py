"""Request ids, one log line and one metric per request, --root-path, fixed headers, and a response to every exception."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import LOG_FIELDS, error_response, path_of
from server.observability.logging import request_id, trace_id
from server.observability.metrics import Metrics

log = logging.getLogger("server.access")
ID = re.compile(r"[A-Za-z0-9._:\-]{1,64}")
TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-")
"""Begin of the header `traceparent` of W3C Trace Context."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_CLOSED = 499
"""Status in log and metrics of a request whose client disconnected before the response, as in nginx."""
FIXED_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
CONTENT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
"""Header of responses that are not HTML and have no policy of their own: it denies everything."""


class RequestLog:
    """Gives each request an id, which is the header `X-Request-Id` if it matches `ID`, and logs its end. `root_path` is the
    prefix of all addresses, which a proxy may remove."""

    def __init__(self, app: ASGIApp, metrics: Metrics, root_path: str = "") -> None:
        self.app = app
        self.root_path = root_path
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        if self.root_path:
            scope.update(root_path=self.root_path, path=with_prefix(scope, self.root_path))
        headers = dict(scope["headers"])
        identity = request_identity(headers)
        scope[LOG_FIELDS] = {}
        token = request_id.set(identity)
        trace = TRACE.match(headers.get(b"traceparent", b"").decode("latin-1"))
        trace_token = trace_id.set(trace_id.get() or (trace[1] if trace else ""))
        status = CLIENT_CLOSED
        closed = False
        method = scope["method"]
        handled = {**scope, "method": "GET"} if method == "HEAD" else scope  # uvicorn leaves out the body

        async def send_observed(message: Message) -> None:
            nonlocal status, closed
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = with_fixed(message["headers"], identity, path_of(scope))
            elif not closed and not message.get("more_body", False):
                closed = True  # before the last message, so that a client with the whole response finds it counted
                self._close(handled, method, status, began)
            await send(message)

        try:
            try:
                await self.app(handled, receive, send_observed)
            except Exception as error:
                if status != CLIENT_CLOSED:  # the response has begun and can only be aborted
                    error_response(scope, error)
                    raise
                await error_response(scope, error)(scope, receive, send_observed)
        finally:
            if not closed:
                self._close(handled, method, status, began)
            request_id.reset(token)
            trace_id.reset(trace_token)
            scope["route"] = handled.get("route")  # for outer middleware

    def _close(self, scope: Scope, method: str, status: int, began: float) -> None:
        """Counts and logs a request that began at `began` of time.perf_counter()."""
        seconds = time.perf_counter() - began
        route = getattr(scope.get("route"), "path", "unmatched")
        method = method if method in METHODS else "other"
        self.metrics.http(route, method, status, seconds)
        quiet = route in ("/health", "/ready", "/metrics") and status < 400
        fields = {"route": route, "method": method, "status": status, "seconds": round(seconds, 6)}
        fields |= {"request_id": request_id.get(), **scope[LOG_FIELDS]}
        log.log(logging.DEBUG if quiet else logging.INFO, "request", extra=fields)


def with_prefix(scope: Scope, prefix: str) -> str:
    """Returns the path with the prefix, as ASGI demands, where the proxy has removed it. Of a POST the prefix alone is a path
    after it, because /translate may be a prefix too."""
    path: str = scope["path"]
    kept = path.startswith(prefix + "/") or (path == prefix and scope["method"] != "POST")
    return path if kept else prefix + path


def request_identity(headers: Mapping[bytes, bytes]) -> str:
    """Returns the id of the request: the caller's, or a random one."""
    given = headers.get(b"x-request-id", b"").decode("latin-1")
    return given if ID.fullmatch(given) else os.urandom(16).hex()


def with_fixed(headers: Sequence[tuple[bytes, bytes]], identity: str, path: str) -> list[tuple[bytes, bytes]]:
    """Returns the headers of a response with the request's id and the fixed headers."""
    present = dict(headers)  # ASGI's names are in small letters
    result = [*headers, (b"x-request-id", identity.encode()), *FIXED_HEADERS]
    if CONTENT_POLICY[0] not in present and not present.get(b"content-type", b"").startswith(b"text/html"):
        result.append(CONTENT_POLICY)
    if path.startswith("/v2/"):  # DeepL's clients read this name
        result.append((b"x-trace-id", identity.encode()))
    return result
