"""A real Prometheus scrapes a live server with the configuration, alerts and dashboard of deploy/."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.support.servers.live import LiveServer, live_server, tiny_model
from tests.support.servers.ports import free_port
from tests.unit.deploy.test_deploy import PROMETHEUS, ROOT, alert_rules

KUBERNETES = ROOT / "deploy/kubernetes"
TIMEOUT_SECONDS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("live")
    tiny_model(folder / "weights" / "tiny")
    # The metrics of the shared state exist where it is configured; nothing listens on that port.
    with live_server(
        folder / "weights", folder / "log", ("--state", "redis://127.0.0.1:1", "--cache-bytes", "0")
    ) as running:
        yield running


@pytest.fixture(scope="module")
def query(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """A function that queries the HTTP API of Prometheus, which scrapes the live server every second."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (Debian package: prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    configuration = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(PROMETHEUS / name) for name in configuration["rule_files"]]
    del configuration["alerting"]
    target = {"targets": [server.url.removeprefix("http://")]}
    configuration["scrape_configs"] = [{"job_name": "attentive", "static_configs": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    options = {"config.file": folder / "prometheus.yml", "storage.tsdb.path": folder / "data"}
    command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stderr=log)

    def question(path: str) -> Any:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    try:
        yield question
    finally:
        process.terminate()
        process.wait(30)


def eventually(read: Callable[[], Any]) -> Any:
    """Returns the first true value of `read`, which may fail to connect at first."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            if found := read():
                return found
        except OSError:
            pass  # Prometheus is still starting
        time.sleep(0.2)
    raise AssertionError("Prometheus did not come to know it.")


def value(query: Callable[[str], Any], expression: str) -> float | None:
    result = query("query?" + urllib.parse.urlencode({"query": expression}))["result"]
    return float(result[0]["value"][1]) if result else None


def test_prometheus_scrapes_the_server_and_counters_increase(server: LiveServer, query: Callable[[str], Any]) -> None:
    eventually(lambda: value(query, 'up{job="attentive"}') == 1)
    assert eventually(lambda: value(query, "attentive_worker_up") == 1)
    total = "sum(attentive_request_success_total)"
    [before] = eventually(lambda: [] if (found := value(query, total)) is None else [found])
    for _ in range(3):
        assert server.post("/translate", {"q": ["the house", "a dog"], "source": "en", "target": "fr"}).status == 200
    # Identical requests are computed once only while they are in flight, and these came one after another.
    eventually(lambda: value(query, total) == before + 6)


def test_prometheus_evaluates_every_alert(query: Callable[[str], Any]) -> None:
    def evaluated() -> list[dict[str, Any]]:
        rules = [rule for group in query("rules")["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else []

    rules = eventually(evaluated)
    assert {rule["name"] for rule in rules} == {rule["alert"] for rule in alert_rules()}
    assert [rule["lastError"] for rule in rules if rule["health"] != "ok"] == []
