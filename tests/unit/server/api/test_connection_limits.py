"""Bounds of heads, URLs and unfinished bodies, slow clients, and half-closed connections, on a real
port."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from server.api import connection_limits
from server.api.connection_limits import Cycle, UnfinishedRequests
from server.cli import serve
from tests.support.engine.fake_engine import FakeEngine
from tests.support.servers.in_process import running

HOST = b"Host: x\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    with running(FakeEngine(), body_bytes=100_000) as (url, _):
        host, port = url.removeprefix("http://").split(":")
        yield host, int(port)


def receive(connection: socket.socket) -> bytes:
    """Returns all bytes until the server closes the connection."""
    connection.settimeout(60)
    answer = b""
    while part := connection.recv(65_536):
        answer += part
    return answer


def exchange(server: tuple[str, int], request: bytes) -> tuple[int, str]:
    """Sends bytes and returns the status and the sentence of a refusal."""
    with socket.create_connection(server) as connection:
        connection.sendall(request)
        answer = receive(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower() and b"x-request-id: " in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]


@pytest.mark.parametrize(
    "path", ["/", "/health", "/languages", "/attention", "/openapi.json", "/nothing"]
)
def test_head_has_the_headers_of_get_without_the_body(server, path):
    def ask(method: str) -> tuple[list[bytes], bytes]:
        with socket.create_connection(server) as connection:
            connection.sendall(
                f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
            )
            head, _, body = receive(connection).partition(b"\r\n\r\n")
        varying = (b"date:", b"x-request-id:")
        return [line for line in head.splitlines() if not line.lower().startswith(varying)], body

    expected, body = ask("GET")
    assert body
    assert ask("HEAD") == (expected, b"")


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["unfinished", "whole"])
@pytest.mark.parametrize(
    ("head", "status", "sentence"),
    [
        (b"GET /" + b"a" * 40_000, 414, "The URL is over"),
        (
            b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 70_000,
            431,
            "The head of the request is over",
        ),
        (
            b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 500_000,
            431,
            "The head of the request is over",
        ),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 200 + b"X: y", 431, "more than 128 headers"),
    ],
)
def test_heads_are_bounded(server, head, status, sentence, end):
    if status == 414 and end:
        end = b" HTTP/1.1\r\n" + HOST + b"\r\n"
    got, error = exchange(server, head + end)
    assert got == status
    assert sentence in error


def test_a_body_larger_than_the_bound_of_heads_is_not_a_head(server):
    body = b'{"q": "' + b"a" * 90_000 + b'"}'
    with socket.create_connection(server) as connection:
        head = b"POST /nothing HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n" % len(body)
        connection.sendall(head + HOST + b"\r\n" + body)
        assert receive(connection).startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    "rest", [b"0\r\n" + b"A: b\r\n" * 200, b"0\r\nA: " + b"b" * 400_000, b"5;" + b"x" * 400_000]
)
def test_trailers_and_chunk_extensions_are_bounded(server, rest):
    head = b"POST /translate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n"
    assert exchange(server, head + rest)[0] == 431


def test_an_invalid_request_is_refused_in_one_sentence(server):
    for request in (b"\x16\x03\x01 nonsense\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\n" + HOST + b"\r\n"):
        assert exchange(server, request) == (400, "This is not a valid HTTP request.")


@pytest.mark.parametrize(
    ("first", "headers", "status"),
    [
        (b"GET /health HTTP/1.1", b"", 400),
        (b"GET /health HTTP/1.1", b"Host: a\r\nHost: b\r\n", 400),
        (b"GET /health HTTP/1.1", b"Host: a\r\nhost: a\r\n", 400),
        (b"GET /health HTTP/1.0", b"Host: a\r\nHost: a\r\n", 400),
        (b"POST /translate HTTP/1.1", b"Content-Length: 2\r\n", 400),
        (b"GET /health HTTP/1.1", b"Host: a/b\r\n", 400),
        (b"GET /health HTTP/1.1", b"Host: a b\r\n", 400),
        (b"GET /health HTTP/1.1", b"Host: a@b\r\n", 400),
        (b"GET /health HTTP/1.1", b"Host: \xff\r\n", 400),
        (b"FOO /health HTTP/1.1", HOST, 501),
        (b"get /health HTTP/1.1", HOST, 501),
        (b"TRANSLATE /translate HTTP/1.1", HOST, 501),
        (b"GET  HTTP/1.1", HOST, 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", b"", 400),
    ],
)
def test_what_is_wrong_with_a_request_decides_its_status(server, first, headers, status):
    got, error = exchange(server, first + b"\r\n" + headers + b"\r\n")
    assert got == status
    assert ("Host" in error) == (status == 400 and not first.startswith((b"GET  ", b"\x16")))
    assert ("method" in error) == (status == 501)


@pytest.mark.parametrize(
    "host", [b"a", b"a.b:8000", b"127.0.0.1:1", b"[::1]:8000", b"", b"xn--bcher-kva.example"]
)
def test_every_valid_host_is_served(server, host):
    with socket.create_connection(server) as connection:
        connection.sendall(
            b"GET /health HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n"
        )
        assert receive(connection).startswith(b"HTTP/1.1 200")


def test_http_1_0_needs_no_host(server):
    with socket.create_connection(server) as connection:
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert receive(connection).startswith(b"HTTP/1.1 200")


def test_pipelined_requests_are_answered_in_order(server):
    one = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n"
    last = b"GET /health HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
    with socket.create_connection(server) as connection:
        connection.sendall(9 * one + last)
        assert receive(connection).count(b"HTTP/1.1 200") == 10


@pytest.mark.parametrize("pieces", [1, 3], ids="in {} pieces".format)
@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"nonsense\r\n\r\n", 400),
        (b"FOO / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\nnonsense\r\n", 400),
    ],
)
def test_a_refusal_comes_after_the_answers_to_the_requests_before(server, wrong, status, pieces):
    body = b'{"q": "Hello", "source": "en", "target": "de"}'
    before = post(len(body), body) + 3 * (b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
    sent = before + wrong + b"GET /never HTTP/1.1\r\n" + HOST + b"\r\n"
    assert statuses(server, sent, pieces) == [b"200"] * 4 + [b"%d" % status]


def test_the_requests_before_one_too_many_are_answered(server):
    waiting = (connection_limits.PIPELINED + 1) * (b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
    assert statuses(server, 5 * waiting) == [b"200"] * (connection_limits.PIPELINED + 1) + [b"503"]


def statuses(server, sent: bytes, pieces: int = 1) -> list[bytes]:
    """Returns the statuses of all answers to what is sent on one connection."""
    with socket.create_connection(server) as connection:
        for start in range(0, len(sent), size := -(-len(sent) // pieces)):
            connection.sendall(sent[start : start + size])
            time.sleep(0.02)
        return [answer.split()[0] for answer in receive(connection).split(b"HTTP/1.1 ")[1:]]


def test_a_slow_head_and_a_slow_body_are_refused(server, monkeypatch):
    monkeypatch.setattr(serve, "TICKS", 1)
    monkeypatch.setattr(connection_limits, "PART_SECONDS", 0.0)
    assert exchange(server, b"GET / HTTP/1.1\r\nX: ") == (
        408,
        "The head of the request came too slowly.",
    )
    begun = b"POST /translate HTTP/1.1\r\nContent-Length: 1000\r\n" + HOST + b"\r\n{"
    assert exchange(server, begun) == (408, "The body of the request came too slowly.")


def test_a_connection_without_a_request_is_closed(server, monkeypatch):
    monkeypatch.setattr(serve, "TICKS", 1)
    monkeypatch.setattr(connection_limits, "IDLE_SECONDS", 0.0)
    with socket.create_connection(server) as connection:
        assert receive(connection) == b""


def post(length: int, body: bytes) -> bytes:
    return b"POST /translate HTTP/1.1\r\nContent-Length: %d\r\n" % length + HOST + b"\r\n" + body


@pytest.mark.parametrize("pieces", [1, 2, 7], ids="in {} pieces".format)
def test_an_offer_of_http_2_is_declined_and_its_body_is_read(server, pieces):
    """Java's HttpClient sends this offer with every first request of a connection."""
    body = b'{"q": "Hello", "source": "en", "target": "de"}'
    offer = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
        b"AAEAAEAAAAIAAAAB\r\n"
    )
    one = post(len(body), body).replace(HOST, HOST + offer)
    chunked = one.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
    chunked = chunked.replace(body, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    last = b"GET /health HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
    sent = one + chunked + one.replace(b"POST /translate", b"POST /detect") + last
    with socket.create_connection(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = -(-len(sent) // pieces)
        for start in range(0, len(sent), size):
            connection.sendall(sent[start : start + size])
            time.sleep(0.02)
        answer = receive(connection)
    assert (
        answer.count(b"HTTP/1.1 200") == 4
        and answer.count(b"olleH") == 2
        and b"confidence" in answer
    )


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_client_that_sends_a_whole_body_over_the_limit_receives_the_refusal(server, chunked):
    """Most client libraries read the answer only after they have sent the body."""
    body = b"x" * 30_000_000
    request = post(len(body), body)
    if chunked:
        request = request.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
        request = request.replace(body, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    with socket.create_connection(server) as connection:
        connection.sendall(
            request + b"GET /health HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
        )
        answer = receive(connection)
    assert answer.startswith(b"HTTP/1.1 413") and b"over the limit of 100,000 bytes" in answer
    assert answer.count(b"HTTP/1.1 200") == 1


def test_a_half_closed_connection_without_a_whole_request_is_closed(server):
    for request in (post(10, b"{"), b"GET / HT", b""):
        with socket.create_connection(server) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            assert receive(connection) == b""


def test_the_oldest_unfinished_request_is_refused_first():
    refused: list[tuple[str, int]] = []

    class Connection:
        def __init__(self, name: str) -> None:
            self.name = name

        def refuse(self, status: int, sentence: str) -> None:
            refused.append((self.name, status))

    unfinished = UnfinishedRequests(3 * connection_limits.CONNECTION_BYTES + 1_000)
    first, second, third, fourth = (Connection(name) for name in "abcd")
    for one in (first, second, third):
        unfinished.add(one, 100)
    assert refused == []
    unfinished.remove(first)
    unfinished.add(fourth, 100)
    assert refused == []
    unfinished.add(fourth, 10_000)
    assert refused == [("b", 503)]
    for one in (third, fourth):
        unfinished.remove(one)
    assert unfinished.bytes == 0


class Cycles:
    """A cycle on a transport that keeps what is written."""

    def __init__(self, method: str, keep_alive: bool = True) -> None:
        self.written: list[bytes] = []
        self.ended = 0
        self.closed = False
        transport: Any = SimpleNamespace(write=self.written.append, close=self._close)
        log = logging.getLogger(__name__)
        flow = FlowControl(transport)
        scope: Any = {"method": method, "http_version": "1.1"}
        event, default = asyncio.Event(), [(b"date", b"today")]
        self.cycle = Cycle(
            scope, transport, flow, log, log, False, default, event, False, keep_alive, self._end
        )

    def _close(self) -> None:
        self.closed = True

    def _end(self) -> None:
        self.ended += 1

    async def send(self, length: int | None, bodies: list[bytes], **headers: bytes) -> None:
        stated = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
        stated += [] if length is None else [(b"content-length", b"%d" % length)]
        await self.cycle.send({"type": "http.response.start", "status": 200, "headers": stated})
        for number, body in enumerate(bodies, start=1):
            more = number < len(bodies)
            await self.cycle.send({"type": "http.response.body", "body": body, "more_body": more})


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("length", "bodies"),
    [
        (4, [b"body"]),
        (8, [b"body", b"body"]),
        (0, [b""]),
        (None, [b"event", b"event", b""]),
        (8, [b"body"] * 2 + [b""]),
    ],
)
async def test_an_answer_is_that_of_uvicorn_in_fewer_writes(keep_alive, method, length, bodies):
    ours, uvicorns = Cycles(method, keep_alive), Cycles(method, keep_alive)
    await ours.send(length, bodies, x_a=b"1")
    uvicorns.cycle.__class__ = RequestResponseCycle
    await uvicorns.send(length, bodies, x_a=b"1")
    assert b"".join(ours.written) == b"".join(uvicorns.written)
    assert (ours.ended, ours.closed) == (uvicorns.ended, uvicorns.closed) == (1, not keep_alive)
    if length == 4 and method == "GET" and keep_alive:
        assert len(ours.written) == 1


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb", b"a\rb", b"a\0b", b"\x7f"])
async def test_a_header_cannot_begin_another_one(value):
    ours = Cycles("GET")
    with pytest.raises(RuntimeError):
        await ours.send(4, [b"body"], x_a=value)
    assert not ours.written


@pytest.mark.parametrize("bodies", [[b"bo"], [b"bodies"], [b"bo", b"d"], [b"bo", b"dies"]])
async def test_a_body_has_the_stated_length(bodies):
    with pytest.raises(RuntimeError):
        await Cycles("GET").send(4, bodies)


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_protocol_of_another_program_writes_an_answer_at_once(at_once, monkeypatch):
    """As the listener of Ray: a server that ends between head and body has broken an answer."""
    monkeypatch.setattr(httptools_impl, "RequestResponseCycle", RequestResponseCycle)
    if at_once:
        connection_limits.write_answers_at_once()
    config = uvicorn.Config(PlainTextResponse("Hello"), http="auto", log_config=None)
    config.load()
    state = ServerState()
    transport = Mock(is_closing=lambda: False, get_extra_info=lambda name: None)
    made: Any = config.http_protocol_class
    protocol = made(config, state, {})
    protocol.connection_made(transport)
    protocol.data_received(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    await asyncio.gather(*state.tasks)
    written = [call.args[0] for call in transport.write.call_args_list]
    assert len(written) == 2 - at_once
    assert b"".join(written).endswith(b"\r\n\r\nHello")
    protocol.connection_lost(None)
