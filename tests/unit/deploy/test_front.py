"""HAProxy in front of the servers: its configuration, the requests that it repeats, its errors and
its log."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from email.message import Message
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, ClassVar

import pytest

from server.api.app import new_app
from server.config import Settings
from tests.support.servers.ports import free_port

ROOT = Path(__file__).parents[3]
CONFIGURATION = ROOT / "deploy/haproxy/haproxy.cfg"
WITH_EFFECT = (
    "/translate_file",
    "/v2/document",
    "/v2/glossaries",
    "/v3/glossaries",
    "/suggest",
    "/admin/",
)
"""POST requests that make something, that are refused, or that the front does not pass on."""


@pytest.fixture(scope="module")
def front_variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the environment of HAProxy in front of two servers that do not run, with a new
    certificate."""
    if shutil.which("haproxy") is None or shutil.which("openssl") is None:
        pytest.skip("haproxy is not installed (Debian packages: haproxy, openssl)")
    folder = tmp_path_factory.mktemp("certificate")
    command = ["sh", ROOT / "deploy/haproxy/make-certificate.sh", folder]
    subprocess.run(command, capture_output=True, check=True)
    assert [path.name for path in folder.iterdir()] == ["front.pem"]
    return {
        **os.environ,
        "SERVER": "127.0.0.1:1",
        "SERVER_ALIVE": "127.0.0.1:1",
        "CERTIFICATE": str(folder / "front.pem"),
    }


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize(
    ("subject", "days", "renewed"),
    [
        ("/CN=localhost", 29, True),
        ("/CN=localhost", 31, False),
        ("/CN=translate.example", 29, False),
    ],
)
def test_the_certificate_made_for_localhost_is_renewed_in_its_last_month(
    subject: str, days: int, renewed: bool, tmp_path: Path
) -> None:
    file, key = tmp_path / "front.pem", tmp_path / "key.pem"
    made = (
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days {days} "
        f"-subj {subject}"
    )
    subprocess.run([*made.split(), "-keyout", key, "-out", file], capture_output=True, check=True)
    before = file.read_bytes()
    for _ in range(2):  # the second run keeps the certificate of the first one
        subprocess.run(
            ["sh", ROOT / "deploy/haproxy/make-certificate.sh", tmp_path],
            capture_output=True,
            check=True,
        )
        assert (file.read_bytes() != before) == renewed
        before, renewed = file.read_bytes(), False


def test_the_front_repeats_the_requests_without_an_effect() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    repeated = {
        path
        for line in re.findall(r"^ *acl repeatable path (.+)$", text, re.MULTILINE)
        for path in line.split()
    }
    posts = {path for path, methods in new_app().openapi()["paths"].items() if "post" in methods}
    assert repeated == {path for path in posts if not path.startswith(WITH_EFFECT)}


@contextmanager
def running_front(
    variables: dict[str, str], configuration: str | Path = CONFIGURATION
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
        assert answer_of(port, path)[0] == 404, path
    assert answer_of(port, "/ready")[0] == 503  # no server runs


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
        answer_of(port, path)
    # ends after its connections; SIGTERM may lose their lines of the log
    process.send_signal(signal.SIGUSR1)
    log = process.stdout.read().decode() if process.stdout else ""
    assert "SECRET" not in log
    assert (
        log.count("/download_file/") == 2
        and "GET /translate 503" in log
        and "GET /ready 503" in log
    )


def test_a_reload_of_the_front_loses_no_request_of_an_idle_connection(
    front: tuple[int, subprocess.Popen[bytes]],
) -> None:
    port, process = front
    with closing(connection_to(port)) as client:
        client.request("GET", "/metrics")
        client.getresponse().read()
        process.send_signal(signal.SIGUSR1)  # as the old process gets it
        with suppress(ConnectionRefusedError):
            while True:
                socket.create_connection(("127.0.0.1", port)).close()
        client.request("GET", "/metrics")
        assert client.getresponse().status == 404


@contextmanager
def front_of_a_server(
    variables: dict[str, str],
    ready: list[int],
    *changes: tuple[str, str],
    health: int | None = None,
) -> Iterator[tuple[int, Iterator[socket.socket]]]:
    """Runs a front before a server whose /ready is the last status of `ready`, and its /health too
    without a status of its own. Yields its port and the connections of the POST requests that it
    sends. It waits one second where the real one waits ten. `changes` replace parts of its file."""

    def posts() -> Iterator[socket.socket]:
        end = time.monotonic() + 60  # for a front that sends only checks
        with suppress(OSError):  # closed at the end
            while time.monotonic() < end:
                request = server.accept()[0]
                match request.recv(1000).split()[:2]:
                    case [b"POST", _]:
                        yield request
                    case [_, b"/health"]:
                        answer(request, health or ready[-1])
                    case _:
                        answer(request, ready[-1])

    text = CONFIGURATION.read_text(encoding="utf-8")
    for old, new in (("server 10s", "server 1s"), *changes):
        assert old in text
        text = text.replace(old, new)
    with socket.create_server(("127.0.0.1", 0)) as server, NamedTemporaryFile("w") as configuration:
        server.settimeout(30)
        configuration.write(text)
        configuration.flush()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with running_front(
            variables | {"SERVER": address, "SERVER_ALIVE": address}, configuration.name
        ) as (port, _):
            yield port, posts()


def answer(request: socket.socket, status: int = 200) -> None:
    request.sendall(b"HTTP/1.1 %d \r\nContent-Length: 0\r\n\r\n" % status)
    request.close()


def test_a_server_behind_the_front_sees_that_its_client_has_left(
    front_variables: dict[str, str],
) -> None:
    with front_of_a_server(front_variables, [200]) as (port, posts):
        client = connection_to(port)
        client.request("POST", "/translate")
        with closing(next(posts)) as request:
            client.close()
            request.settimeout(30)
            with suppress(ConnectionResetError):
                assert request.recv(1) == b""


@pytest.mark.slow
@pytest.mark.parametrize("later", [200, 503])
def test_a_translation_that_a_frozen_server_has_is_repeated_although_no_server_is_ready_then(
    later: int, front_variables: dict[str, str]
) -> None:
    ready, often = [200], ("inter 1s", "inter 50ms")
    with (
        front_of_a_server(front_variables, ready, often, health=200) as (port, posts),
        closing(connection_to(port)) as client,
    ):
        client.request("POST", "/translate", b'{"q": "a"}')
        with closing(next(posts)):
            ready.append(later)
            with closing(next(posts)):
                answer(next(posts))
                assert client.getresponse().status == 200


@pytest.mark.slow  # starts HAProxy
def test_a_server_that_is_not_ready_gets_no_requests_and_answers_those_it_has(
    front_variables: dict[str, str],
) -> None:
    ready = [200]
    with (
        front_of_a_server(front_variables, ready) as (port, posts),
        closing(connection_to(port)) as client,
    ):
        client.request("POST", "/v2/document", b"a")
        request = next(posts)
        ready.append(503)
        # answers the health checks
        threading.Thread(target=lambda: list(posts), daemon=True).start()
        while answer_of(port, "/docs")[2] != {"error": "No server is ready; try again later."}:
            time.sleep(0.05)
        answer(request)
        assert client.getresponse().status == 200


class StatedServer(http.server.ThreadingHTTPServer):
    """A server whose /ready and /health have the statuses of `state`, and which answers other
    requests with its number."""

    STATES: ClassVar = {"ready": (200, 200), "restarting": (503, 200), "frozen or gone": (503, 503)}

    def __init__(self, number: int) -> None:
        self.number, self.state = number, "ready"
        super().__init__(("127.0.0.1", 0), StatedHandler)


class StatedHandler(http.server.BaseHTTPRequestHandler):
    server: StatedServer

    def do_GET(self) -> None:
        ready, health = StatedServer.STATES[self.server.state]
        status = {"/ready": ready, "/health": health}.get(self.path, 200)
        body = json.dumps(self.server.number).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.slow  # starts HAProxy
@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_restarts_gets_requests_only_while_no_server_is_ready(
    front_variables: dict[str, str], tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    text = CONFIGURATION.read_text(encoding="utf-8").replace("inter 1s", "inter 50ms")
    with ExitStack() as stack:
        servers = [stack.enter_context(StatedServer(number)) for number in range(3)]
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        lines = "".join(
            rf"\n    server \g<1>{server.number} 127.0.0.1:{server.server_port}\2"
            for server in servers
        )
        text, changed = re.subn(r'\n    server-template (\w+-) .*"(.*)', lines, text)
        assert changed == 2
        (tmp_path / "haproxy.cfg").write_text(text)
        port, _ = stack.enter_context(running_front(front_variables, tmp_path / "haproxy.cfg"))
        for _ in range(8):
            for server in servers:
                server.state = rng.choice([*StatedServer.STATES, "restarting"])
            living = [server for server in servers if server.state != "frozen or gone"]
            best = [server.number for server in living if server.state == "ready"] or [
                each.number for each in living
            ]
            row = 0
            while row < 6:  # the front notices soon
                status, headers, body = answer_of(port, "/languages")
                assert status == 200 or (status == 503 and headers["Retry-After"])
                row = row + 1 if (body in best if best else status == 503) else 0


@pytest.mark.slow  # starts HAProxy
def test_a_request_meets_a_new_server_that_does_not_listen_yet_at_most_once(
    front_variables: dict[str, str],
) -> None:
    new = "".join(f"\n    server new-{number} 127.0.0.1:{free_port()}" for number in range(2))
    template = 'server-template ready- 1-16 "${SERVER-server:8000}"'
    changes = (("inter 1s", "inter 60s"), (template, template.replace("1-16", "1") + new))
    with front_of_a_server(front_variables, [200], *changes) as (port, posts), ExitStack() as stack:
        clients = [stack.enter_context(closing(connection_to(port))) for _ in range(4)]
        # the server that listens is the busiest, so each request goes to the new ones first
        for client in clients:
            client.request("POST", "/translate", b'{"q": "a"}')
        for _ in clients:
            answer(next(posts))
        assert [client.getresponse().status for client in clients] == [200] * 4


@pytest.mark.slow  # starts HAProxy
@pytest.mark.parametrize(
    ("part", "status"), [(b"", 503), (b"HTTP/1.1 200 \r\nContent-Length: 10\r\n\r\n123", 502)]
)
def test_a_request_whose_servers_have_all_ended_is_answered_although_its_connection_is_not_new(
    front_variables: dict[str, str], tmp_path: Path, part: bytes, status: int
) -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    text = text.replace(" 1-16 ", " 1 ").replace(
        "default-server check", "default-server"
    )  # one server, which counts as up
    (tmp_path / "haproxy.cfg").write_text(text)
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        variables = front_variables | {"SERVER": address, "SERVER_ALIVE": address}
        port, _ = stack.enter_context(running_front(variables, tmp_path / "haproxy.cfg"))
        client = stack.enter_context(closing(connection_to(port)))
        client.request("POST", "/translate", b'{"q": "a"}')
        answered = stack.enter_context(server.accept()[0])
        assert answered.recv(1000).startswith(b"POST")
        answered.sendall(b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n")
        assert client.getresponse().read() == b""
        client.request("POST", "/translate", b'{"q": "a"}')
        if server in select.select([server], [], [], 1)[0]:
            answered = stack.enter_context(server.accept()[0])
        assert answered.recv(1000).startswith(b"POST")
        server.close()
        answered.close()
        with client.getresponse() as received:
            assert (
                received.status,
                received.headers["Retry-After"],
                json.load(received).keys(),
            ) == (
                503,
                "2",
                {"error"},
            )


def test_errors_of_the_front_are_json_and_name_when_to_return(
    front: tuple[int, subprocess.Popen[bytes]],
) -> None:
    for host, known in (("translate.example", "max-age=31536000"), ("localhost:8443", None)):
        status, headers, body = answer_of(front[0], "/languages", host)
        assert (status, body.keys(), headers["Retry-After"]) == (503, {"error"}, "2")
        assert headers["Strict-Transport-Security"] == known
    errors = re.findall(
        r"^ *http-error status (\d+) .* string '(.+?)'", CONFIGURATION.read_text(), re.MULTILINE
    )
    stated = {status for status, text in errors if json.loads(text).keys() == {"error"}}
    assert stated == {"400", "404", "408", "500", "502", "503", "504"}


@pytest.mark.parametrize(
    ("cipher", "accepted"), [("AES128-GCM-SHA256", True), ("AES128-SHA256", False)]
)
def test_the_front_refuses_ciphers_with_cbc(
    cipher: str, accepted: bool, front: tuple[int, Any]
) -> None:
    context = ssl._create_unverified_context()  # noqa: S323  the certificate is self-signed
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"ECDHE-ECDSA-{cipher}")
    with nullcontext() if accepted else pytest.raises(ssl.SSLError):
        context.wrap_socket(socket.create_connection(("127.0.0.1", front[0]))).close()


def test_the_front_waits_longer_than_a_server_works() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    [others] = re.findall(r"^ *timeout server (\d+)s$", text, re.MULTILINE)
    [files] = re.findall(
        r"^ *http-request set-timeout server (\d+)s if { path /translate_file }$",
        text,
        re.MULTILINE,
    )
    assert int(others) > Settings().timeout_seconds
    assert int(files) > Settings().file_timeout_seconds


def connection_to(port: int) -> http.client.HTTPSConnection:
    context = ssl._create_unverified_context()  # noqa: S323  the certificate is self-signed
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)


def answer_of(port: int, path: str, host: str = "localhost") -> tuple[int, Message, Any]:
    """Returns status, headers and body of the answer to GET `path`. The body is JSON or empty."""
    with closing(connection_to(port)) as connection:
        connection.request("GET", path, headers={"Host": host})
        with connection.getresponse() as answer:
            return answer.status, answer.headers, json.loads(answer.read() or b"null")


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until the process accepts connections."""
    while True:
        assert process.poll() is None, process.stdout and process.stdout.read()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=30).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)
