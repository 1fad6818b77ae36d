"""OpenTelemetry traces over OTLP: one span per HTTP request. The only importer of opentelemetry (extra `otel`).

A span has the route, the method, the status, the request id and durations. It has no text, key or address.
"""

from __future__ import annotations

import asyncio
import re

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Paths that monitoring requests every few seconds; not traced."""
CONTEXT = (b"traceparent", b"tracestate")
TIMING = re.compile(r"([a-z_]+);dur=([0-9.]+)")


class Tracing:
    """Outermost middleware: each request is a span, in the trace that its headers name (W3C trace context).

    A background thread sends the spans to `endpoint`, which is OTLP over HTTP such as http://localhost:4318. Spans are dropped
    while it is slow or unreachable. The end of the lifespan sends the remaining ones.
    """

    def __init__(self, app: ASGIApp, endpoint: str, version: str) -> None:
        self.app = app
        resource = Resource.create({"service.name": "attentive", "service.version": version})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("attentive", version)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await self.app(scope, receive, send)
            finally:
                await asyncio.to_thread(self._provider.shutdown)
            return
        if scope["type"] != "http" or scope["path"] in QUIET:
            await self.app(scope, receive, send)
            return
        caller = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in CONTEXT}
        context = TraceContextTextMapPropagator().extract(caller)
        span = self._tracer.start_span(scope["method"], context, SpanKind.SERVER)

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                span.set_attributes(response_attributes(message))
                if message["status"] >= 500:
                    span.set_status(StatusCode.ERROR)
            await send(message)

        try:
            await self.app(scope, receive, send_recorded)
        finally:
            route = getattr(scope.get("route"), "path", "unmatched")
            span.update_name(f"{scope['method']} {route}")
            span.set_attributes({"http.request.method": scope["method"], "http.route": route})
            span.end()


def response_attributes(start: Message) -> dict[str, str | int | float]:
    """Returns attributes of a response: status, request id, and the seconds of each part in Server-Timing."""
    headers = {name.lower(): value.decode("latin-1") for name, value in start.get("headers", ())}
    attributes: dict[str, str | int | float] = {"http.response.status_code": start["status"]}
    if identity := headers.get(b"x-request-id"):
        attributes["attentive.request_id"] = identity
    for part, milliseconds in TIMING.findall(headers.get(b"server-timing", "")):
        attributes[f"attentive.{part}_seconds"] = float(milliseconds) / 1000
    return attributes
