"""OpenTelemetry traces over OTLP, when asked for: one span per HTTP request. The only importer of opentelemetry (extra
`otel`).

A span holds the route, the method, the status, the request id and where the time went; never a text, a key or an
address.
"""

from __future__ import annotations

from collections.abc import Mapping

from server.errors import SettingsError

SETTING = "--otlp-endpoint (ATTENTIVE_OTLP_ENDPOINT)"
FLUSH_MILLISECONDS = 5_000
Attributes = Mapping[str, str | int | float]


class Telemetry:
    """Sends spans to a collector from a thread of its own; a collector that is slow or gone costs spans, never
    requests.

    `endpoint` is the address of OTLP over HTTP, such as http://localhost:4318. Raises SettingsError where the extra
    `otel` is not installed.
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
        """One answered request. Times are nanoseconds since the epoch; `caller` are the headers of the W3C trace
        context (`traceparent`, `tracestate`), so that the span joins the caller's trace."""
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract(dict(caller))
        span = self._tracer.start_span(name, context, SpanKind.SERVER, dict(attributes), start_time=began)
        if failed:
            span.set_status(StatusCode.ERROR)
        span.end(ended)

    def close(self) -> None:
        """Sends what is left, for at most some seconds."""
        self._provider.force_flush(FLUSH_MILLISECONDS)
        self._provider.shutdown()
