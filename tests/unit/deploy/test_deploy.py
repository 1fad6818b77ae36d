"""The files in deploy/ and the compose file are valid and hardened, and use existing metrics and
routes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.config import Settings

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARD = ROOT / "deploy/grafana/dashboards/attentive.json"
COMPOSE, SCALED = (
    yaml.safe_load(re.sub(r"!(reset|override) ", "", (ROOT / name).read_text(encoding="utf-8")))
    for name in ("docker-compose.yml", "docker-compose.scaled.yml")
)
SERVICES: dict[str, dict[str, Any]] = SCALED["services"] | COMPOSE["services"]
SCALED_SERVER = SCALED["services"]["server"]

NO_PROMTOOL = "promtool is not installed (Debian package: prometheus)"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason=NO_PROMTOOL)


def promtool(*arguments: str | Path, folder: Path = PROMETHEUS) -> None:
    run = subprocess.run(
        ["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
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
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(expressions)
    ]
    group = {"name": "panels", "rules": rules}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
    promtool("check", "rules", "rules.yml", folder=tmp_path)


def test_every_alert_has_a_test_a_severity_and_an_action() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {
        case["alertname"]
        for test in tests
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
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
    assert "mem_limit" in service
    assert "privileged" not in service
    assert "user" not in service or not str(service["user"]).startswith(("0", "root"))


@pytest.mark.parametrize("name", list(SERVICES))
def test_every_image_is_pinned_and_published_on_this_machine_only(name: str) -> None:
    service = SERVICES[name]
    assert re.search(r":v?\d+\.\d+\.\d+(-gpu)?$", service["image"])
    assert re.search(
        r"^ARG BASE=python:[\d.]+-slim-bookworm@sha256:[0-9a-f]{64}$",
        (ROOT / "Dockerfile").read_text(),
        re.M,
    )
    for port in service.get("ports", ()):
        assert port.startswith(("127.0.0.1:", "${PUBLISH:-127.0.0.1}:"))


FIXED = {f"ATTENTIVE_{name}" for name in ("HOST", "PORT", "WEIGHTS", "DATA", "ADMIN_KEY_FILE")}
"""Variables that have the same value always, because ports and volumes depend on them."""


@pytest.mark.parametrize("name", ["server", "server-gpu", "tools"])
def test_every_setting_reaches_the_container(name: str) -> None:
    environment = SERVICES[name]["environment"]
    assert (
        set(environment)
        == {f"ATTENTIVE_{setting.upper()}" for setting in Settings.__slots__} | FIXED
    )
    # those that are misspelled too
    assert SERVICES[name]["env_file"] == [{"path": ".env", "required": False}]
    # a fixed value, or a default that the caller's value replaces
    for key in set(environment) - FIXED:
        assert (
            environment[key] is None
            or key == "ATTENTIVE_DEVICE"
            or environment[key].startswith(f"${{{key}:-")
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
    networks = {
        name: set(service.get("networks", ["default"])) for name, service in SERVICES.items()
    }
    assert networks["redis"] == {"state"} and SCALED["networks"]["state"] == {"internal": True}
    assert {name for name, found in networks.items() if "state" in found} == {"redis"}
    assert SCALED_SERVER["networks"].keys() == {"default", "state"} and SCALED_SERVER["ports"] == []
    assert "ports" not in SERVICES["redis"]


def test_the_front_finds_the_servers_by_two_names() -> None:
    """A backend of HAProxy has each address of a name once, but two servers for it: one is checked
    by /ready, one by /health."""
    names = re.findall(
        r'server-template \S+ 1-16 "\$\{\w+-(.+):8000\}"',
        (ROOT / "deploy/haproxy/haproxy.cfg").read_text(),
    )
    assert names == ["server", *SCALED_SERVER["networks"]["default"]["aliases"]]


def test_files_that_containers_mount_exist() -> None:
    mounts = [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
    ]
    for path in (ROOT / mount for mount in mounts if mount.startswith("./")):
        assert path.exists()


def test_the_image_copies_what_compiles_the_cpu_backend(tmp_path: Path) -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    stage = text.partition(" AS cpu-backend")[2].partition("\nFROM")[0]
    for *sources, target in (
        line.split() for line in re.findall(r"^COPY (model.*\.py .*)", stage, re.MULTILINE)
    ):
        (tmp_path / target).mkdir(parents=True, exist_ok=True)
        for source in sources:
            shutil.copy(ROOT / source, tmp_path / target)
    command = [
        sys.executable,
        "-c",
        "import model.backends.cpu.__main__ as found; print(found.__file__)",
    ]
    run = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert run.stdout.startswith(str(tmp_path)), run.stderr


def test_the_images_have_the_versions_of_the_constraints_with_hashes() -> None:
    def pins(text: str) -> dict[str, str]:
        found = re.findall(r"^([\w.-]+)[=>]=([^\s;]+)", text, re.MULTILINE)
        return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}

    tested = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    texts = {
        path.stem: path.read_text(encoding="utf-8")
        for path in (ROOT / "deploy/requirements").glob("*.txt")
    }
    for text in texts.values():
        assert {name: tested.get(name, version) for name, version in pins(text).items()} == pins(
            text
        )
        assert all("--hash=sha256:" in package for package in re.split(r"\n(?=\S)", text))
    command = [sys.executable, "deploy/docker/requirements.py", "redis, otel, torch", "torch"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {*project["dependencies"], *extras["redis"], *extras["otel"]}
    assert wanted == set(run.stdout.splitlines())
    assert not pins("\n".join(wanted)).keys() - pins(texts["server"]).keys()
    assert "torch" in pins(texts["gpu"]) and pins(texts["tools"]).keys() >= {
        "ctranslate2",
        "sacrebleu",
    }


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_the_unit_of_systemd_is_valid_and_confined(tmp_path):
    unit = tmp_path / "attentive.service"
    text = (ROOT / "deploy/systemd/attentive.service").read_text(encoding="utf-8")
    unit.write_text(
        text.replace("/opt/attentive/bin/attentive serve", sys.executable), encoding="utf-8"
    )
    for arguments in (["verify"], ["security", "--offline=yes", "--threshold=20"]):  # of 100
        run = subprocess.run(
            ["systemd-analyze", *arguments, unit], capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stderr) == (0, ""), run.stdout[-300:]
