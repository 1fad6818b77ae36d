"""A client that has gone frees its place in the queue within a second, however its requests were
split and followed by others."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from server.cli import serve
from server.cli.serve import Server
from tests.support.engine.fake_engine import FakeEngine
from tests.support.servers.in_process import running, wait_for

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
SECONDS = 60.0  # of half the time that the engine needs; the machine may be busy


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Server]]:
    with (
        pytest.MonkeyPatch.context() as patch,
        running(
            FakeEngine(delay=2 * SECONDS), cache_bytes=0, char_limit=1_000_000, grace_seconds=0.1
        ) as (
            url,
            server,
        ),
    ):
        patch.setattr(serve, "TICKS", 1)
        yield url, server


def request(path: str, size: int, chunked: bool) -> tuple[bytes, bytes]:
    """Returns head and body of a request that occupies a place; the body has at least `size`
    bytes."""
    if path == "/translate_file":
        text = b"A text. " * (1 + size // 8)
        fields = b"".join(
            b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % field
            for field in ((b"source", b"en"), (b"target", b"de"))
        )
        file = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
            + text
            + b"\r\n--x--\r\n"
        )
        kind, body = b"multipart/form-data; boundary=x", fields + file
    else:
        kind = b"application/json"
        # a field without meaning, so that the work does not grow with the size
        padding = "x" * size
        body = json.dumps(
            {"q": "Hello", "source": "en", "target": "de", "padding": padding}
        ).encode()
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    head = b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Type: %b\r\n%b\r\n\r\n" % (
        path.encode(),
        kind,
        length,
    )
    return head, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body


def split(head: bytes, body: bytes, how: str) -> list[bytes]:
    """Returns the pieces in which a request is sent."""
    if how == "at once":
        return [head + body]
    if how == "head, body":
        return [head, body]
    if how == "within the head":
        return [head[:30], head[30:] + body]
    if how == "last byte":
        return [head + body[:-1], body[-1:]]
    size = {"halves": -(-len(body) // 2), "pieces of 30 kB": 30_000, "pieces of 70 kB": 70_000}[how]
    return [head, *(body[start : start + size] for start in range(0, len(body), size))]


HOW = (
    "at once",
    "head, body",
    "within the head",
    "last byte",
    "halves",
    "pieces of 30 kB",
    "pieces of 70 kB",
)


def requests_in(server: Server) -> int:
    services = server._services
    return services.translator.admission.requests + services.documents.admission.requests


def leave(connection: socket.socket, reset: bool) -> None:
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize(
    ("size", "how"),
    [
        (size, how)
        for size in (10, 66_000, 300_000)
        for how in HOW
        if size > 70_000 or not how.endswith("70 kB")
    ],
)
def test_a_gone_client_frees_its_place(server, size, how, reset):
    url, running_server = server
    host, port = url.removeprefix("http://").split(":")
    for path, chunked, before, after in (
        ("/translate", False, b"", b""),
        ("/translate", True, HEALTH, b""),
        ("/translate", False, HEALTH, 3 * HEALTH),
        ("/translate", False, b"", 40 * HEALTH + request("/translate", 200_000, False)[0] + b"{"),
        ("/translate_file", False, HEALTH, HEALTH),
    ):
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if before:  # kept alive
                connection.sendall(before)
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            for piece in split(*request(path, size, chunked), how):
                connection.sendall(piece)
                time.sleep(0.005)
            wait_for(lambda: requests_in(running_server))
            if after:
                connection.sendall(after)
                time.sleep(0.02)
            leave(connection, reset)
        wait_for(lambda: not requests_in(running_server), SECONDS)
