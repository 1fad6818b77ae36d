"""Traces have a span per request and per part of its time, in the caller's trace and without the text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.testclient import TestClient

from server.api.app import create_app
from server.config import Settings
from server.engine.client import engine_client
from server.engine.client.engine_client import AlignmentClock
from server.errors import SettingsError
from server.services import Services
from tests.support.engine.fake_engine import FakeEngine, fake_catalog
from tests.support.servers.in_process import wait_for

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


class Collector:
    """An OTLP endpoint that stores the requests it gets."""

    def __init__(self) -> None:
        bodies = self.bodies = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Silence."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> list:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [s for r in requests for one in r.resource_spans for scope in one.scope_spans for s in scope.spans]


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.server.shutdown()
    running.server.server_close()


def client(endpoint: str) -> TestClient:
    settings = Settings(otlp_endpoint=endpoint)
    return TestClient(create_app(settings, Services(settings, FakeEngine(), fake_catalog())))


def attributes(span) -> dict:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}


def test_a_request_is_a_span_of_the_callers_trace(collector: Collector) -> None:
    with client(collector.url) as http:
        headers = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01", "X-Request-Id": "mine"}
        body = {"q": "Secret words.", "source": "en", "target": "de"}
        assert http.post("/translate", json=body, headers=headers).status_code == 200
        wait_for(lambda: http.get("/ready").status_code == 200)
    (span,) = (span for span in collector.spans() if span.parent_span_id.hex() == "00f067aa0ba902b7")
    parts = [part for part in collector.spans() if part.parent_span_id == span.span_id]
    assert span.name == "POST /translate"
    assert {one.trace_id.hex() for one in [span, *parts]} == {TRACE_ID}
    assert {part.name for part in parts} == {"queue", "encode", "decode"} and len(parts) + 1 == len(collector.spans())
    assert all(first.end_time_unix_nano == then.start_time_unix_nano for first, then in pairwise(parts))
    assert span.start_time_unix_nano <= span.end_time_unix_nano
    found = attributes(span)
    assert found["http.response.status_code"] == 200
    assert found["attentive.request_id"] == "mine"
    assert {"attentive.queue_seconds", "attentive.decode_seconds"} <= set(found)
    assert not any(b"Secret" in body for body in collector.bodies)


def test_the_alignment_of_tags_is_a_part_after_the_decode(collector: Collector) -> None:
    """The sentences of a request are aligned together, so the part is not their sum."""
    with client(collector.url) as http:
        text = "One <b>two</b> three. " * 4
        body = {"q": text, "source": "en", "target": "de", "format": "html"}
        assert http.post("/translate", json=body).status_code == 200
    (span,) = (span for span in collector.spans() if span.name == "POST /translate")
    parts = [part for part in collector.spans() if part.parent_span_id == span.span_id]
    assert [part.name for part in parts] == ["queue", "encode", "decode", "align"]
    assert (
        0 < attributes(span)["attentive.align_seconds"] < 1e-9 * (span.end_time_unix_nano - span.start_time_unix_nano)
    )


def test_time_in_which_several_alignments_run_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(engine_client.time, "perf_counter", lambda: now[0])
    clock = AlignmentClock()
    first, second = clock.running(), clock.running()
    for step in (first.__enter__, second.__enter__, lambda: first.__exit__(None, None, None)):
        step()
        now[0] += 1
    second.__exit__(None, None, None)
    now[0] += 100
    with clock.running():
        now[0] += 2
    assert clock.seconds == 5


def test_an_unknown_path_is_not_a_span_name(collector: Collector) -> None:
    with client(collector.url) as http:
        assert http.get("/Secret").status_code == http.head("/Secret").status_code == 404
    assert [span.name for span in collector.spans()] == ["GET unmatched", "HEAD unmatched"]
    assert not any(b"Secret" in body for body in collector.bodies)


def test_an_invalid_endpoint_is_rejected() -> None:
    with pytest.raises(SettingsError, match="must begin with http"):
        client("localhost:4318")


def test_without_an_endpoint_there_is_no_tracing(serve: Callable[..., TestClient]) -> None:
    assert "Tracing" not in [str(layer.cls.__name__) for layer in serve().app.user_middleware]
