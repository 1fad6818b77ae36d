"""Processor time is found by port and includes child processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.load.__main__ import _times
from benchmarks.load.processor_time import Server, Spent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield bound.getsockname()[1]


def test_the_listening_process_is_found_with_its_children() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sum(range(30_000_000)); sys.stdin.read()"], stdin=-1)
    try:
        with listening() as port:
            server = Server.find(port)
            assert server.front == os.getpid()
            assert child.pid in server.workers
            before = server.spent()
            deadline = time.monotonic() + 30
            while (server.spent() - before).workers == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (server.spent() - before).workers > 0
    finally:
        child.communicate(b"")


def test_a_port_without_a_listener_is_an_error() -> None:
    with listening() as port:
        pass
    with pytest.raises(ValueError, match=str(port)):
        Server.find(port)


def test_times_are_per_request() -> None:
    spent = Spent(1.0, 4.0) - Spent(0.5, 2.0) + Spent(0.5, 2.0)
    assert spent.share == pytest.approx(0.2)
    assert _times(spent, 1000) == {"front us": 1000.0, "workers us": 4000.0, "front %": pytest.approx(20.0)}
    assert Spent(0.0, 0.0).share == 0.0
