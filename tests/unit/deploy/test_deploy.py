"""The files in deploy/ and the compose file are valid and hardened, and use existing metrics and routes."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    for port in service["ports"]:
        assert port.startswith(("127.0.0.1:", "${PUBLISH:-127.0.0.1}:"))


def test_grafana_finds_its_datasource_and_dashboard() -> None:
    provisioning = ROOT / "deploy/grafana/provisioning"
    source = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text(encoding="utf-8"))["datasources"][0]
    provider = yaml.safe_load((provisioning / "dashboards/attentive.yml").read_text(encoding="utf-8"))["providers"][0]
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    used = {target["datasource"]["uid"] for panel in board["panels"] for target in panel.get("targets", ())}
    assert used == {source["uid"]}
    assert source["url"].split("/")[-1].split(":")[0] in SERVICES
    mounts = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounts
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_panels_do_not_overlap() -> None:
    panels = [panel["gridPos"] for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]]
    spans = [(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])) for at in panels]
    cells = [cell for columns, rows in spans for cell in itertools.product(columns, rows)]
    assert len(cells) == len(set(cells))
    assert all(x < 24 for x, _ in cells)


def test_kubernetes_runs_the_same_image_unprivileged() -> None:
    deployment = yaml.safe_load((ROOT / "deploy/kubernetes/deployment.yaml").read_text(encoding="utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["image"] == SERVICES["server"]["image"]
    assert f"USER {pod['securityContext']['runAsUser']}" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    grace = {item["name"]: item["value"] for item in container["env"]}["ATTENTIVE_GRACE_SECONDS"]
    assert pod["terminationGracePeriodSeconds"] > int(grace)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    specs = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8")).get("spec", {})
        for path in (ROOT / "deploy/kubernetes").glob("*.yaml")
    }
    assert specs["service"]["selector"] == labels
    assert specs["disruption-budget"]["selector"]["matchLabels"] == labels
    assert specs["network-policy"]["podSelector"]["matchLabels"] == labels
