"""The layer before the routes: request ids, log, metrics and traces."""

from __future__ import annotations

import gc
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from server.api.app import create_app
from server.api.middleware.entrance import AccessLog, Exchange, OneRequestId
from server.api.middleware.tracing import covered
from server.config import Settings
from server.errors import SettingsError
from server.observability.metrics import Metrics
from server.services import Services
from tests.support.engine.fake_engine import FakeEngine, fake_catalog
from tests.support.servers.in_process import wait_for


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {"q": "a house", "source": "en", "target": "de"}),
        ("/translate", {"q": ""}),
        ("/nowhere", {}),
    ],
)
def test_an_ended_request_is_freed_without_the_collector(
    serve: Callable[..., TestClient], path: str, body: dict[str, str]
) -> None:
    # What refers to itself waits for the collector, under load for minutes.
    client = serve()
    client.post(path, json=body)
    gc.collect()
    gc.disable()
    try:
        before = exchanges()  # servers of other tests may still hold some
        for _ in range(5):
            client.post(path, json=body)
        assert exchanges() <= before
    finally:
        gc.enable()


def exchanges() -> set[int]:
    return {id(each) for each in gc.get_objects() if type(each) is Exchange}


async def test_every_request_is_in_a_line_or_in_a_number(caplog: pytest.LogCaptureFixture) -> None:
    rng, expected, metrics = random.Random(1), Counter(), Metrics("0")
    access_log = AccessLog(metrics)
    with caplog.at_level(logging.INFO, "server.access"):
        for _ in range(1_000):
            status, reason = rng.choice(
                [(200, ""), (429, "queue"), (429, "caller"), (503, "Unavailable")]
            )
            key, route = rng.choice(["", "a"]), rng.choice(["/translate", "/align"])
            fields = {name: value for name, value in (("reason", reason), ("key", key)) if value}
            access_log.add(route, "POST", status, 0.01, fields)
            expected[route, status, reason, key] += 1
            if rng.random() < 0.01:
                access_log.flush()
        access_log.flush()
        access_log.flush()
    logged, lines = Counter(), 0
    for line in map(vars, caplog.records):
        kind = line["route"], line["status"], line.get("reason", ""), line.get("key", "")
        logged[kind] += line.get("requests", 1)
        lines += line["status"] == 429
    assert logged == expected
    assert lines < sum(number for kind, number in expected.items() if kind[1] == 429) / 2
    counted = metrics.render().decode()
    assert 'requests_total{method="POST",route="/align",status="429"}' in counted


async def test_what_was_counted_is_logged_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    later = []

    def call_later(_, seconds, call, context):
        later.append((seconds, call))
        assert not list(context), "a line of many requests has the id of none"

    monkeypatch.setattr("asyncio.BaseEventLoop.call_later", call_later)
    access_log = AccessLog(Metrics("0"))
    for _ in range(3):
        access_log.add("/translate", "POST", 429, 0.01, {"reason": "queue"})
    assert [seconds for seconds, _ in later] == [1.0]
    later[0][1]()
    access_log.add("/translate", "POST", 429, 0.01, {"reason": "queue"})
    assert len(later) == 2


class RaysRequestId:
    """Adds the request's id to the response, as the middleware of Ray Serve does."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ids = [value for name, value in scope["headers"] if name == b"x-request-id"] or [
            b"made-by-ray"
        ]
        scope = {**scope, "headers": [*scope["headers"], (b"x-request-id", ids[0])]}

        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-request-id", ids[0])]}
            await send(message)

        await self.app(scope, receive, send_with_id)


@pytest.mark.parametrize(("given", "returned"), [(None, 1), ("mine", 1), ("a b!", 2)])
async def test_a_response_has_the_id_of_ray_and_of_the_server_only_if_they_differ(
    given: str | None, returned: int
) -> None:
    settings = Settings()
    app = RaysRequestId(
        OneRequestId(create_app(settings, Services(settings, FakeEngine(), fake_catalog())))
    )
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if given is None else [(b"x-request-id", given.encode())]
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/health",
        "headers": headers,
        "query_string": b"",
        "http_version": "1.1",
    }
    await app(
        scope | {"raw_path": b"/health", "scheme": "http", "root_path": "", "client": None},
        receive,
        send,
    )
    ids = [value.decode() for name, value in sent[0]["headers"] if name == b"x-request-id"]
    assert len(ids) == returned
    assert ids[-1] == (given or "made-by-ray")


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
        return [
            s
            for r in requests
            for one in r.resource_spans
            for scope in one.scope_spans
            for s in scope.spans
        ]


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
    return {
        item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes
    }


def test_a_request_is_a_span_of_the_callers_trace(collector: Collector) -> None:
    with client(collector.url) as http:
        headers = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01", "X-Request-Id": "mine"}
        body = {"q": "Secret words.", "source": "en", "target": "de"}
        assert http.post("/translate", json=body, headers=headers).status_code == 200
        wait_for(lambda: http.get("/ready").status_code == 200)
    (span,) = (
        span for span in collector.spans() if span.parent_span_id.hex() == "00f067aa0ba902b7"
    )
    parts = [part for part in collector.spans() if part.parent_span_id == span.span_id]
    assert span.name == "POST /translate"
    assert {one.trace_id.hex() for one in [span, *parts]} == {TRACE_ID}
    assert {part.name for part in parts} == {"queue", "encode", "decode"} and len(parts) + 1 == len(
        collector.spans()
    )
    assert all(
        first.end_time_unix_nano == then.start_time_unix_nano for first, then in pairwise(parts)
    )
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
        0
        < attributes(span)["attentive.align_seconds"]
        < 1e-9 * (span.end_time_unix_nano - span.start_time_unix_nano)
    )


def test_time_in_which_several_alignments_run_counts_once() -> None:
    rng = random.Random(1)
    for _ in range(200):
        begins = [rng.randrange(50) for _ in range(rng.randrange(9))]
        intervals = [(float(begin), float(begin + rng.randrange(9))) for begin in begins]
        inside = {second for begin, end in intervals for second in range(int(begin), int(end))}
        assert covered(intervals) == len(inside)


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
