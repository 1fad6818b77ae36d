"""OpenTelemetry traces over OTLP: one span per HTTP request. The only importer of opentelemetry (extra `otel`).

A span has the route, the method, the status, the request id and durations. It has no text, key or address.
"""

from __future__ import annotations

from collections.abc import Mapping

from server.errors import SettingsError

SETTING = "--otlp-endpoint (ATTENTIVE_OTLP_ENDPOINT)"
FLUSH_MILLISECONDS = 5_000
Attributes = Mapping[str, str | int | float]


class Telemetry:
    """Sends spans to a collector from a background thread. Spans are dropped while the collector is slow or
    unreachable.

    `endpoint` is the address of OTLP over HTTP, such as http://localhost:4318. Raises SettingsError where it is no HTTP
    address or the extra `otel` is not installed.
    """

    def __init__(self, endpoint: str, version: str) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise SettingsError(f"{SETTING} must begin with http:// or https://.")
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise SettingsError(f"{SETTING} needs the extra otel: pip install 'attentive-server[otel]'.") from None
        resource = Resource.create({"service.name": "attentive", "service.version": version})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("attentive", version)

    def record_request(
        self, name: str, caller: Mapping[str, str], began: int, ended: int, attributes: Attributes, failed: bool
    ) -> None:
        """Records one answered request. `began` and `ended` are nanoseconds since the epoch. `caller` holds the headers
        of the W3C trace context (`traceparent`, `tracestate`), which make the span part of the caller's trace."""
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract(dict(caller))
        span = self._tracer.start_span(name, context, SpanKind.SERVER, dict(attributes), start_time=began)
        if failed:
            span.set_status(StatusCode.ERROR)
        span.end(ended)

    def close(self) -> None:
        """Sends the remaining spans, for at most 5 seconds, and stops the thread."""
        self._provider.force_flush(FLUSH_MILLISECONDS)
        self._provider.shutdown()
