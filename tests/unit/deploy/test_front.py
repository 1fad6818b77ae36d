"""HAProxy in front of the servers: its configuration, the requests that it repeats, its errors and its log."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from server.api.app import new_app
from server.config import Settings
from tests.support.servers.ports import free_port

ROOT = Path(__file__).parents[3]
CONFIGURATION = ROOT / "deploy/haproxy/haproxy.cfg"
WITH_EFFECT = ("/translate_file", "/v2/document", "/v2/glossaries", "/v3/glossaries", "/suggest", "/admin/")
"""POST requests that make something, that are refused, or that the front does not pass on."""


@pytest.fixture
def front_variables(tmp_path: Path) -> dict[str, str]:
    """Returns the environment of HAProxy in front of two servers that do not run, with a new certificate."""
    if shutil.which("haproxy") is None or shutil.which("openssl") is None:
        pytest.skip("haproxy is not installed (Debian packages: haproxy, openssl)")
    subprocess.run(["sh", ROOT / "deploy/haproxy/make-certificate.sh", tmp_path], capture_output=True, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["front.pem"]
    return {**os.environ, "SERVER": "127.0.0.1:1", "CERTIFICATE": str(tmp_path / "front.pem")}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize(
    ("subject", "days", "renewed"),
    [("/CN=localhost", 29, True), ("/CN=localhost", 31, False), ("/CN=translate.example", 29, False)],
)
def test_the_certificate_made_for_localhost_is_renewed_in_its_last_month(
    subject: str, days: int, renewed: bool, tmp_path: Path
) -> None:
    file, key = tmp_path / "front.pem", tmp_path / "key.pem"
    made = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days {days} -subj {subject}"
    subprocess.run([*made.split(), "-keyout", key, "-out", file], capture_output=True, check=True)
    before = file.read_bytes()
    for _ in range(2):  # the second run keeps the certificate of the first one
        subprocess.run(["sh", ROOT / "deploy/haproxy/make-certificate.sh", tmp_path], capture_output=True, check=True)
        assert (file.read_bytes() != before) == renewed
        before, renewed = file.read_bytes(), False


def test_the_front_is_configured(front_variables: dict[str, str]) -> None:
    command = ["haproxy", "-c", "-f", CONFIGURATION]
    run = subprocess.run(command, env=front_variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_front_repeats_the_requests_without_an_effect() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    repeated = {
        path for line in re.findall(r"^ *acl repeatable path (.+)$", text, re.MULTILINE) for path in line.split()
    }
    posts = {path for path, methods in new_app().openapi()["paths"].items() if "post" in methods}
    assert repeated == {path for path in posts if not path.startswith(WITH_EFFECT)}


@contextmanager
def running_front(
    variables: dict[str, str], configuration: Path = CONFIGURATION
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Runs HAProxy and yields its port and its process, whose standard output is its log."""
    port = free_port()
    listeners = {"FRONT": f"127.0.0.1:{port}", "FRONT_METRICS": f"127.0.0.1:{free_port()}"}
    command = ["haproxy", "-db", "-f", configuration]
    with subprocess.Popen(
        command, env=variables | listeners, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            wait_for_port(port, process)
            yield port, process
        finally:
            process.kill()


@pytest.fixture
def front(front_variables: dict[str, str]) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with running_front(front_variables) as found:
        yield found


def test_the_front_hides_metrics_and_administration_however_the_path_is_written(
    front: tuple[int, subprocess.Popen[bytes]],
) -> None:
    port, _ = front
    for path in ("/metrics", "/%6Detrics", "/admin/reload", "/%61dmin/reload", "/admin%2Freload"):
        assert status_of(port, path) == 404, path
    assert status_of(port, "/ready") == 503  # no server runs


def test_the_log_of_the_front_has_no_query_no_file_name_and_no_link_to_a_file(
    front: tuple[int, subprocess.Popen[bytes]],
) -> None:
    port, process = front
    for path in (
        "/download_file/SECRET/SECRET.txt",
        "/%64ownload_file/SECRET/SECRET.txt",
        "/translate?q=SECRET",
        "/ready",
    ):
        status_of(port, path)
    process.send_signal(signal.SIGUSR1)  # ends after its connections; SIGTERM may lose their lines of the log
    log = process.stdout.read().decode() if process.stdout else ""
    assert "SECRET" not in log
    assert log.count("/download_file/") == 2 and "GET /translate 503" in log and "GET /ready 503" in log


def test_a_server_behind_the_front_sees_that_its_client_has_left(front_variables: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with running_front(front_variables | {"SERVER": address}) as (port, _):
            client = connection_to(port)
            client.request("POST", "/translate")
            request = server.accept()[0]
            while not request.recv(1000).startswith(b"POST"):  # a health check
                request.close()
                request = server.accept()[0]
            client.close()
            request.settimeout(30)
            with closing(request), suppress(ConnectionResetError):
                assert request.recv(1) == b""


class FakeServer(ThreadingHTTPServer):
    """A server that freezes: it does not answer the first `frozen` translations until `thawed` is set."""

    def __init__(self, frozen: int) -> None:
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.ready, self.frozen = 200, frozen
        self.posts: list[str] = []
        self.thawed = threading.Event()


class FakeHandler(BaseHTTPRequestHandler):
    server: FakeServer

    def do_GET(self) -> None:
        self.answer(self.server.ready)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append(self.path)
        if len(self.server.posts) <= self.server.frozen:
            self.server.thawed.wait(30)
        self.answer(200)

    def answer(self, status: int) -> None:
        with suppress(OSError):  # the front has left
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None: ...


@contextmanager
def front_of(variables: dict[str, str], folder: Path, frozen: int) -> Iterator[tuple[int, FakeServer]]:
    """Runs a front that waits one second where the real one waits ten, before a server."""
    configuration = folder / "haproxy.cfg"
    configuration.write_text(CONFIGURATION.read_text(encoding="utf-8").replace("server 10s", "server 1s"))
    with FakeServer(frozen) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        with running_front(variables | {"SERVER": address}, configuration) as (port, _):
            yield port, server
        server.thawed.set()
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "times"), [("/translate", 3), ("/v2/document", 1)])
def test_a_translation_that_a_frozen_server_has_is_repeated(
    path: str, times: int, front_variables: dict[str, str], tmp_path: Path
) -> None:
    with front_of(front_variables, tmp_path, frozen=2) as (port, server), closing(connection_to(port)) as connection:
        connection.request("POST", path, b'{"q": "a"}')
        if times == 1:
            assert connection.sock is not None
            connection.sock.settimeout(2)
            with pytest.raises(TimeoutError):
                connection.getresponse()
        else:
            assert connection.getresponse().status == 200
        assert server.posts == [path] * times


def test_a_server_that_is_not_ready_gets_no_requests_and_answers_those_it_has(
    front_variables: dict[str, str], tmp_path: Path
) -> None:
    with front_of(front_variables, tmp_path, frozen=1) as (port, server), closing(connection_to(port)) as connection:
        connection.request("POST", "/v2/document", b"a")
        while not server.posts:
            time.sleep(0.01)
        server.ready = 503
        while (answer := answer_of(port, "/docs")).body != {"error": "No server is ready; try again later."}:
            assert answer.status == 503  # of the server
            time.sleep(0.05)
        server.thawed.set()
        assert connection.getresponse().status == 200


def test_errors_of_the_front_are_json_and_name_when_to_return(front: tuple[int, subprocess.Popen[bytes]]) -> None:
    port, _ = front
    for host, known in (("translate.example", "max-age=31536000"), ("localhost:8443", None)):
        unready = answer_of(port, "/languages", host)
        assert (unready.status, set(unready.body), unready.headers["Retry-After"]) == (503, {"error"}, "2")
        assert unready.headers["Strict-Transport-Security"] == known
    assert (answer_of(port, "/metrics").status, answer_of(port, "/metrics").body) == (404, {"error": "Not found."})
    statuses = re.findall(r"^ *http-error status (\d+) .* string '(.+?)'", CONFIGURATION.read_text(), re.MULTILINE)
    assert [status for status, body in statuses if set(json.loads(body)) == {"error"}] == [
        *("400", "404", "408", "500", "502", "503", "504")
    ]


@pytest.mark.parametrize(("cipher", "accepted"), [("AES128-GCM-SHA256", True), ("AES128-SHA256", False)])
def test_the_front_refuses_ciphers_with_cbc(
    cipher: str, accepted: bool, front: tuple[int, subprocess.Popen[bytes]]
) -> None:
    context = ssl._create_unverified_context()  # noqa: S323  the certificate is self-signed
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"ECDHE-ECDSA-{cipher}")
    with nullcontext() if accepted else pytest.raises(ssl.SSLError):
        context.wrap_socket(socket.create_connection(("127.0.0.1", front[0]))).close()


def test_the_front_waits_longer_than_a_server_works() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    [others] = re.findall(r"^ *timeout server (\d+)s$", text, re.MULTILINE)
    [files] = re.findall(r"^ *http-request set-timeout server (\d+)s if { path /translate_file }$", text, re.MULTILINE)
    assert int(others) > Settings().timeout_seconds
    assert int(files) > Settings().file_timeout_seconds


def connection_to(port: int) -> http.client.HTTPSConnection:
    context = ssl._create_unverified_context()  # noqa: S323  the certificate is self-signed
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)


class Answer(NamedTuple):
    status: int
    headers: Message
    body: Any


def answer_of(port: int, path: str, host: str = "localhost") -> Answer:
    """Returns the answer to GET `path`, whose body is JSON or empty."""
    with closing(connection_to(port)) as connection:
        connection.request("GET", path, headers={"Host": host})
        with connection.getresponse() as answer:
            return Answer(answer.status, answer.headers, json.loads(answer.read() or b"null"))


def status_of(port: int, path: str) -> int:
    return answer_of(port, path).status


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until the process accepts connections."""
    while True:
        assert process.poll() is None, process.stdout and process.stdout.read()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=30).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)
