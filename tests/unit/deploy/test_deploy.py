"""The files in deploy/ and the compose file are valid and hardened, and use existing metrics and routes."""

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
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.api.app import new_app
from server.config import Settings
from tests.support.servers.ports import free_port

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARD = ROOT / "deploy/grafana/dashboards/attentive.json"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

NO_PROMTOOL = "promtool is not installed (Debian package: prometheus)"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason=NO_PROMTOOL)


def promtool(*arguments: str | Path, folder: Path = PROMETHEUS) -> None:
    run = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def dashboard_expressions() -> list[str]:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    targets = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    return targets + [annotation["expr"] for annotation in board["annotations"]["list"]]


def alert_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@needs_promtool
def test_prometheus_reads_its_configuration() -> None:
    promtool("check", "config", "prometheus.yml")


@needs_promtool
def test_alert_rules_pass_their_unit_tests() -> None:
    promtool("test", "rules", "alerts_test.yml")


@needs_promtool
def test_every_panel_has_a_valid_query(tmp_path: Path) -> None:
    known = {"$__rate_interval": "1m", "$instance": ".*"}
    expressions = dashboard_expressions()
    for name, value in known.items():
        expressions = [expression.replace(name, value) for expression in expressions]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(expressions)]
    group = {"name": "panels", "rules": rules}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
    promtool("check", "rules", "rules.yml", folder=tmp_path)


def test_every_alert_has_a_test_a_severity_and_an_action() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    quiet = {case["alertname"] for case in tests[0]["alert_rule_test"] if not case["exp_alerts"]}
    for rule in alert_rules():
        assert rule["alert"] in fired & quiet
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert {"summary", "action"} <= set(rule["annotations"])


@pytest.mark.parametrize("name", list(SERVICES))
def test_every_container_is_unprivileged(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert "user" not in service or not str(service["user"]).startswith(("0", "root"))


@pytest.mark.parametrize("name", list(SERVICES))
def test_every_image_is_pinned_and_published_on_this_machine_only(name: str) -> None:
    service = SERVICES[name]
    assert re.search(r":v?\d+\.\d+\.\d+(-gpu)?$", service["image"])
    for port in service.get("ports", ()):
        assert port.startswith(("127.0.0.1:", "${PUBLISH:-127.0.0.1}:"))


OWN_SETTINGS = {"host", "port", "weights", "data"}
"""Settings that the image fixes, because ports and volumes depend on them."""


@pytest.mark.parametrize("name", ["server", "server-gpu", "server-1", "server-2", "tools"])
def test_every_setting_reaches_the_container(name: str) -> None:
    passed = set(SERVICES[name]["environment"])
    assert passed == {f"ATTENTIVE_{setting.upper()}" for setting in set(Settings.__slots__) - OWN_SETTINGS}
    values = {key: value for key, value in SERVICES[name]["environment"].items() if value is not None}
    for key, value in values.items():  # a fixed value, or a default that the caller's value replaces
        assert key in ("ATTENTIVE_DEVICE", "ATTENTIVE_TRUSTED_PROXIES", "ATTENTIVE_FILE_FOLDER") or value.startswith(
            f"${{{key}:-"
        )


def test_docker_waits_for_the_drain_and_the_accepted_requests() -> None:
    environment = SERVICES["server"]["environment"]
    drain, grace, stop = (
        int(re.findall(r":-(\d+)", text)[0])
        for text in (
            environment["ATTENTIVE_DRAIN_SECONDS"],
            environment["ATTENTIVE_GRACE_SECONDS"],
            SERVICES["server"]["stop_grace_period"],
        )
    )
    assert drain > 0 and drain + grace < stop
    assert SERVICES["front"]["stop_grace_period"] == SERVICES["server"]["stop_grace_period"]


def test_only_the_servers_reach_redis() -> None:
    networks = {name: set(service.get("networks", ["default"])) for name, service in SERVICES.items()}
    assert networks["redis"] == {"state"} and COMPOSE["networks"]["state"] == {"internal": True}
    assert {name for name, found in networks.items() if "state" in found} == {"redis", "server-1", "server-2"}
    assert "ports" not in SERVICES["redis"]


def test_files_that_containers_mount_exist() -> None:
    mounts = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())]
    for path in (ROOT / mount for mount in mounts if mount.startswith("./")):
        assert path.exists()


def test_the_image_without_torch_has_everything_else() -> None:
    command = [sys.executable, "deploy/docker/requirements.py", "redis, otel", "torch"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {*project["dependencies"], *extras["redis"], *extras["otel"]}
    assert wanted - set(run.stdout.splitlines()) == {item for item in wanted if item.startswith("torch>")}


WITH_EFFECT = ("/translate_file", "/v2/document", "/v2/glossaries", "/v3/glossaries", "/suggest", "/admin/")
"""POST requests that make something, that are refused, or that the front does not pass on."""


@pytest.fixture
def front_variables(tmp_path: Path) -> dict[str, str]:
    """Returns the environment of HAProxy in front of two servers that do not run, with a new certificate."""
    if shutil.which("haproxy") is None or shutil.which("openssl") is None:
        pytest.skip("haproxy is not installed (Debian packages: haproxy, openssl)")
    subprocess.run(["sh", ROOT / "deploy/haproxy/make-certificate.sh", tmp_path], capture_output=True, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["front.pem"]
    addresses = {"SERVER_1": "127.0.0.1:1", "SERVER_2": "127.0.0.1:2", "CERTIFICATE": str(tmp_path / "front.pem")}
    return {**os.environ, **addresses}


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
    command = ["haproxy", "-c", "-f", ROOT / "deploy/haproxy/haproxy.cfg"]
    run = subprocess.run(command, env=front_variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_front_repeats_the_requests_without_an_effect() -> None:
    text = (ROOT / "deploy/haproxy/haproxy.cfg").read_text(encoding="utf-8")
    repeated = {
        path for line in re.findall(r"^ *acl repeatable path (.+)$", text, re.MULTILINE) for path in line.split()
    }
    posts = {path for path, methods in new_app().openapi()["paths"].items() if "post" in methods}
    assert repeated == {path for path in posts if not path.startswith(WITH_EFFECT)}


@contextmanager
def running_front(variables: dict[str, str]) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Runs HAProxy and yields its port and its process, whose standard output is its log."""
    port = free_port()
    listeners = {"FRONT": f"127.0.0.1:{port}", "FRONT_METRICS": f"127.0.0.1:{free_port()}"}
    command = ["haproxy", "-db", "-f", ROOT / "deploy/haproxy/haproxy.cfg"]
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
        with running_front(front_variables | {"SERVER_1": address, "SERVER_2": address}) as (port, _):
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


def test_the_front_waits_longer_than_a_server_works() -> None:
    text = (ROOT / "deploy/haproxy/haproxy.cfg").read_text(encoding="utf-8")
    [others] = re.findall(r"^ *timeout server (\d+)s$", text, re.MULTILINE)
    [files] = re.findall(r"^ *http-request set-timeout server (\d+)s if { path /translate_file }$", text, re.MULTILINE)
    assert int(others) > Settings().timeout_seconds
    assert int(files) > Settings().file_timeout_seconds


def connection_to(port: int) -> http.client.HTTPSConnection:
    context = ssl._create_unverified_context()  # noqa: S323  the certificate is self-signed
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)


def status_of(port: int, path: str) -> int:
    with closing(connection_to(port)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            return answer.status


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until the process accepts connections."""
    while True:
        assert process.poll() is None, process.stdout and process.stdout.read()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=30).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)
