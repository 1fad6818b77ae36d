"""A server whose open files are used up says so, answers 503 beyond, and goes on when there are
free ones."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.support.servers.in_process import wait_for
from tests.support.servers.live import LiveServer, live_server

FREE, FLOOD = 40, 300


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two API processes"])
def server(
    request: pytest.FixtureRequest, tiny_weights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    log = tmp_path_factory.mktemp("log") / "log"
    with live_server(
        tiny_weights, log, ("--api-processes", str(request.param), "--dtype", "float32")
    ) as server:
        yield server


def processes(server: LiveServer) -> list[psutil.Process]:
    process = psutil.Process(server.process.pid)
    return [process, *process.children(recursive=True)]


def connect(server: LiveServer) -> socket.socket:
    """Returns a connection without a request: one that has begun must end within seconds."""
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=60)


def answer_to(connection: socket.socket) -> bytes:
    """Sends a request and returns the answer, empty where the connection is closed or reset."""
    body = json.dumps({"q": "the dog sleeps", "source": "en", "target": "de"}).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    try:
        connection.sendall(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        return connection.recv(65_536)
    except (ConnectionResetError, BrokenPipeError):
        return b""


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs a processor with prlimit")
def test_open_files_that_are_used_up_are_logged_and_cost_no_accepted_request(
    server: LiveServer,
) -> None:
    assert server.post("/translate", {"q": "the dog", "source": "en", "target": "de"}).status == 200
    before = processes(server)
    # The limit leaves 3/4 to connections: FREE more than the process with the most files has.
    limit = (max(process.num_fds() for process in before) + FREE) * 4 // 3
    for process in before:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, 4096))
    with ExitStack() as stack:
        accepted = [stack.enter_context(connect(server)) for _ in range(FREE // 2)]
        assert all(map(answer_to, accepted))
        flood = [stack.enter_context(connect(server)) for _ in range(FLOOD)]
        wait_for(lambda: "out of open files" in server.log.read_text())
        answers = [answer_to(connection) for connection in accepted]
        assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers), answers
        statuses = [answer_to(connection)[9:12] for connection in flood]
        assert set(statuses) <= {b"200", b"503", b""}, (
            "it is served, refused, or closed by the kernel"
        )
        assert b"503" in statuses
    wait_for(lambda: server.get("/ready").status == 200)
    assert server.post("/translate", {"q": "a cat", "source": "en", "target": "de"}).status == 200
    assert [process.pid for process in processes(server)] == [process.pid for process in before]
    lines = [line for line in server.log.read_text().splitlines() if "out of open files" in line]
    assert 1 <= len(lines) < len(before) * 10, "at most one in ten seconds of a process"
    assert f" is {limit}; raise the limit" in lines[0]
