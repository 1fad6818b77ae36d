"""OpenTelemetry traces over OTLP: a span for each HTTP request, and within it one for each part of
its time. A span has no text, key or address. Only this file imports opentelemetry (extra `otel`).
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Iterable, Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.middleware.entrance import QUIET
from server.engine.client.engine_client import alignment_times
from server.observability.logging import trace_id

CONTEXT = (b"traceparent", b"tracestate")
TIMING = re.compile(r"([a-z_]+);dur=([0-9.]+)")


class Tracing:
    """Makes each request a span in the trace that its headers name (W3C Trace Context).

    A background thread sends the spans to `endpoint`, OTLP over HTTP such as http://localhost:4318.
    Spans are dropped while it is slow or unreachable. The end of the lifespan sends the last ones.
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
        caller = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in CONTEXT
        }
        context = TraceContextTextMapPropagator().extract(caller)
        span = self._tracer.start_span(scope["method"], context, SpanKind.SERVER)
        token = trace_id.set(f"{span.get_span_context().trace_id:032x}")
        alignments: list[tuple[float, float]] = []
        alignments_token = alignment_times.set(alignments)

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                parts = timings(message)
                if alignments:
                    parts.append(("align", 1000 * covered(alignments)))
                span.set_attributes(response_attributes(message, parts))
                self._add_parts(parts, set_span_in_context(span))
                if message["status"] >= 500:
                    span.set_status(StatusCode.ERROR)
            await send(message)

        try:
            await self.app(scope, receive, send_recorded)
        finally:
            trace_id.reset(token)
            alignment_times.reset(alignments_token)
            route = getattr(scope.get("route"), "path", "unmatched")
            span.update_name(f"{scope['method']} {route}")
            span.set_attributes({"http.request.method": scope["method"], "http.route": route})
            span.end()

    def _add_parts(self, timings: Sequence[tuple[str, float]], parent: Context) -> None:
        """Adds a span for each part. Only lengths are known, so they follow each other and the last
        one ends now."""
        parts = [
            (name, round(1e6 * milliseconds)) for name, milliseconds in timings if milliseconds
        ]
        moment = time.time_ns() - sum(nanoseconds for _, nanoseconds in parts)
        for name, nanoseconds in parts:
            span = self._tracer.start_span(name, parent, start_time=moment)
            moment += nanoseconds
            span.end(moment)


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Returns the seconds that are in at least one of the intervals."""
    seconds, until = 0.0, -math.inf
    for begin, end in sorted(intervals):
        seconds += max(0.0, end - max(begin, until))
        until = max(until, end)
    return seconds


def response_attributes(
    start: Message, parts: Sequence[tuple[str, float]]
) -> dict[str, str | int | float]:
    """Returns attributes of a response: status, request id, and the seconds of each part."""
    attributes: dict[str, str | int | float] = {"http.response.status_code": start["status"]}
    if identity := header(start, b"x-request-id"):
        attributes["attentive.request_id"] = identity
    return attributes | {
        f"attentive.{part}_seconds": milliseconds / 1000
        for part, milliseconds in parts
        if milliseconds
    }


def timings(start: Message) -> list[tuple[str, float]]:
    """Returns the parts in the header Server-Timing, and the milliseconds of each."""
    return [
        (part, float(length)) for part, length in TIMING.findall(header(start, b"server-timing"))
    ]


def header(start: Message, name: bytes) -> str:
    """Returns a header of a response, empty without it."""
    value: bytes = dict(start.get("headers", ())).get(name, b"")
    return value.decode("latin-1")
