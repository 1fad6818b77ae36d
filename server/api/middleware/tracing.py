"""One OpenTelemetry span per request. The application has this middleware only with `--otlp-endpoint`."""

from __future__ import annotations

import re
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.observability.telemetry import Telemetry

QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Paths that monitoring requests every few seconds; not traced."""
CONTEXT = (b"traceparent", b"tracestate")
TIMING = re.compile(r"([a-z_]+);dur=([0-9.]+)")


class Tracing:
    """Outermost middleware: records times and status of a request and passes them to `telemetry`."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self.app = app
        self.telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in QUIET:
            await self.app(scope, receive, send)
            return
        clock = time.perf_counter_ns()
        answer: dict[str, str | int | float] = {}

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.update(response_attributes(message))
            await send(message)

        try:
            await self.app(scope, receive, send_recorded)
        finally:
            ended = time.time_ns()
            self._export(scope, answer, ended - (time.perf_counter_ns() - clock), ended)

    def _export(self, scope: Scope, answer: dict[str, str | int | float], began: int, ended: int) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"]
        caller = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in CONTEXT}
        attributes = {"http.request.method": method, "http.route": route, **answer}
        status = answer.get("http.response.status_code", 0)
        failed = isinstance(status, int) and status >= 500
        self.telemetry.record_request(f"{method} {route}", caller, began, ended, attributes, failed)


def response_attributes(start: Message) -> dict[str, str | int | float]:
    """Returns attributes of a response: status, request id, and the seconds of each part in Server-Timing."""
    headers = {name.lower(): value.decode("latin-1") for name, value in start.get("headers", ())}
    attributes: dict[str, str | int | float] = {"http.response.status_code": start["status"]}
    if identity := headers.get(b"x-request-id"):
        attributes["attentive.request_id"] = identity
    for part, milliseconds in TIMING.findall(headers.get(b"server-timing", "")):
        attributes[f"attentive.{part}_seconds"] = float(milliseconds) / 1000
    return attributes
