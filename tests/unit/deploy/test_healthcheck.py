"""The container's health check: a server that hangs is killed after three checks, any other state
is only reported."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.servers.ports import free_port

SCRIPT = Path(__file__).parents[3] / "deploy/docker/healthcheck.py"
SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status = 503 if self.path == "/ready" and "starting" in sys.argv else 200
        self.send_response(status); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *arguments): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listening", flush=True)
server.serve_forever()
"""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The health check, which waits a moment only."""
    monkeypatch.setenv("HEALTHCHECK_COUNT", str(tmp_path / "count"))
    monkeypatch.setenv("ATTENTIVE_PORT", str(free_port()))
    spec = importlib.util.spec_from_file_location("healthcheck", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def container(request: pytest.FixtureRequest, check: ModuleType) -> Iterator[subprocess.Popen[str]]:
    """A first process with a server as its child, as tini has."""
    words = [
        sys.executable,
        "-c",
        SERVER,
        os.environ["ATTENTIVE_PORT"],
        *getattr(request, "param", ()),
    ]
    command = [
        sys.executable,
        "-c",
        "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))",
        *words,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "listening\n"
        yield process
        if process.poll() is None:
            for pid in check.servers(process.pid):
                os.kill(pid, signal.SIGKILL)


def test_a_server_that_answers_is_healthy(
    check: ModuleType, container: subprocess.Popen[str]
) -> None:
    assert [check.main(container.pid) for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("container", [["starting"]], indirect=True)
def test_a_server_that_is_not_ready_is_unhealthy_and_lives(
    check: ModuleType, container: subprocess.Popen[str]
) -> None:
    assert [check.main(container.pid) for _ in range(4)] == [1] * 4
    assert check.servers(container.pid)


def test_a_server_that_hangs_is_killed(check: ModuleType, container: subprocess.Popen[str]) -> None:
    [server] = check.servers(container.pid)
    os.kill(server, signal.SIGSTOP)
    check.SECONDS = 0.05
    assert [check.main(container.pid) for _ in range(2)] == [1, 1]
    assert check.servers(container.pid) == [server]
    assert check.main(container.pid) == 1
    # the first process ends with its server, and the container with it
    assert container.wait(30) != 0


def test_an_answer_starts_the_count_again(
    check: ModuleType, container: subprocess.Popen[str]
) -> None:
    [server] = check.servers(container.pid)
    for _ in range(2):
        os.kill(server, signal.SIGSTOP)
        check.SECONDS = 0.05
        assert [check.main(container.pid) for _ in range(2)] == [1, 1]
        os.kill(server, signal.SIGCONT)
        check.SECONDS = 60.0
        assert check.main(container.pid) == 0
    assert container.poll() is None


def test_a_server_that_does_not_listen_is_left_alone(check: ModuleType) -> None:
    assert [check.main(os.getpid()) for _ in range(4)] == [1] * 4
