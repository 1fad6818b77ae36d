"""Options and autoscaling of the Ray Serve application, and `attentive ray`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from server.__main__ import main, make_parser
from server.cli.ray import option_values, targets
from server.config import Settings
from server.errors import SettingsError
from server.ray_serve.options import NOT_FOR_REPLICAS, WAITING_TOKENS, Options, WaitingTokens

SERVE_FILE = Path(__file__).parents[4] / "deploy" / "ray" / "serve.yaml"


def test_values_of_a_file_become_options() -> None:
    options = Options.read(
        {"max_replicas": 4, "cpus": 2, "settings": {"key_required": True, "queue_tokens": 1000}}
    )
    assert (options.min_replicas, options.max_replicas, options.cpus) == (1, 4, 2.0)
    assert options.settings == {"key_required": "true", "queue_tokens": "1000"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": 2}, "replicas"),
        ({"max_replicas": "many"}, "max_replicas must be a whole number, not 'many'"),
        ({"cpus": None}, "cpus must be a number, not 'None'"),
        ({"gpus": -1}, "gpus"),
        ({"upscale_seconds": -1}, "upscale_seconds"),
        ({"min_replicas": 0}, "min_replicas"),
        ({"min_replicas": 3, "max_replicas": 2}, "max_replicas"),
        ({"cpus": 0}, "cpus"),
        ({"tokens_per_replica": -1}, "tokens_per_replica"),
        ({"settings": ["weights"]}, "mapping"),
        ({"settings": {"weight": "/srv"}}, "weight"),
        ({"settings": {"slots": -1}}, "slots"),
        ({"settings": {"port": 80}}, "port"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Options.read(values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "redis://:hidden@redis:6379/0"),
        ("state", "rediss://user:hidden@redis:6379"),
        ("state", "redis://redis:6379/0?password=hidden"),
        ("state", "redis://:hidden@[redis"),
        ("otlp_endpoint", "https://user:hidden@collector:4318"),
        ("admin_key", "hidden"),
    ],
)
def test_a_secret_is_refused_because_ray_would_store_it(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"ATTENTIVE_{name.upper()}") as refusal:
        Options(settings={name: value})
    assert "hidden" not in str(refusal.value)
    assert (
        Options(settings={"state": "redis://redis:6379/0"}).replica_settings()["state"]
        == "redis://redis:6379/0"
    )


def test_a_replica_has_threads_for_its_cores_and_time_to_finish() -> None:
    assert Options(cpus=2.5).replica_settings() == {"threads": "3"}
    assert Options(cpus=4, settings={"threads": "2"}).replica_settings() == {"threads": "2"}
    assert Options(cpus=4, gpus=1).replica_settings() == {}
    assert Options(settings={"grace_seconds": "45"}).stop_seconds() > 45


def test_every_setting_but_those_of_the_listener_can_be_given() -> None:
    names = {item.name for item in dataclasses.fields(Settings)} - set(NOT_FOR_REPLICAS)
    texts = {
        item.name: str(item.default).lower()
        for item in dataclasses.fields(Settings)
        if item.name in names
    }
    assert Options(settings=texts).replica_settings().keys() >= names


def test_the_file_for_kuberay_is_valid_and_retries_translations() -> None:
    service = yaml.safe_load(SERVE_FILE.read_text(encoding="utf-8"))["spec"]
    (application,) = yaml.safe_load(service["serveConfigV2"])["applications"]
    assert application["import_path"] == "server.ray_serve.application:build"
    options = Options.read(application["args"])
    cluster = service["rayClusterConfig"]
    (worker,) = cluster["workerGroupSpecs"]
    assert options.max_replicas == worker["maxReplicas"]
    for group in (cluster["headGroupSpec"], worker):
        (container,) = group["template"]["spec"]["containers"]
        assert container["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        variables = {item["name"]: item["value"] for item in container["env"]}
        assert variables["RAY_SERVE_ENABLE_HA_PROXY"] == "1"
        guide = (SERVE_FILE.parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
        assert f'RAY_SERVE_HAPROXY_RETRY_ON="{variables["RAY_SERVE_HAPROXY_RETRY_ON"]}"' in guide
        assert f"RAY_SERVE_HAPROXY_RETRIES={variables['RAY_SERVE_HAPROXY_RETRIES']} " in guide
        ports = {port["name"] for port in container["ports"]}
        # KubeRay adds its own otherwise, which need wget
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["port"] in ports
    assert worker["template"]["spec"]["terminationGracePeriodSeconds"] > options.stop_seconds()


def test_the_version_of_ray_is_the_pinned_one() -> None:
    service = yaml.safe_load(SERVE_FILE.read_text(encoding="utf-8"))["spec"]
    pins = (SERVE_FILE.parents[2] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"ray=={service['rayClusterConfig']['rayVersion']}" in pins


def context(*tokens: float, running: int, target: int = 1) -> SimpleNamespace:
    reports = (
        {WAITING_TOKENS: {f"replica-{i}": value for i, value in enumerate(tokens)}}
        if tokens
        else {}
    )
    return SimpleNamespace(
        aggregated_metrics=reports, current_num_replicas=running, target_num_replicas=target
    )


@pytest.mark.parametrize(
    ("tokens", "running", "replicas"),
    [
        ((0, 0), 2, 0),
        ((1000, 3000), 2, 1),
        ((4000,), 1, 1),
        ((8000, 8000), 2, 4),
        ((6000, 2000), 4, 4),
    ],
)
def test_replicas_follow_the_waiting_tokens(
    tokens: tuple[float, ...], running: int, replicas: float
) -> None:
    assert WaitingTokens(4000)(context(*tokens, running=running)) == (replicas, {})
    # without a report the number stays
    assert WaitingTokens(4000)(context(running=3, target=3)) == (3, {})


REPLICA = SimpleNamespace(
    ip="10.0.0.7", port=30001, instance_id="i", name="SERVE_REPLICA::attentive#Server#abc"
)
PROXY = SimpleNamespace(ip="10.0.0.7", port=8000, instance_id="i", name="SERVE_PROXY_ACTOR-def")
GROUPS = [
    SimpleNamespace(protocol=protocol, app_name=name, route_prefix="/", targets=[target])
    for protocol, name, target in (
        ("HTTP", "attentive", REPLICA),
        ("HTTP", "another", REPLICA),
        ("gRPC", "attentive", REPLICA),
        ("HTTP", "", PROXY),
    )
]


def test_flags_become_options_and_settings() -> None:
    words = ["ray", "deploy", "--max-replicas", "4", "--queue-tokens", "900", "--weights", "/srv"]
    options = Options.read(option_values(make_parser("ray").parse_args(words)))
    assert options == Options(max_replicas=4, settings={"queue_tokens": "900", "weights": "/srv"})


def test_a_deployment_listens_on_this_machine_only_unless_told_otherwise() -> None:
    parser = make_parser("ray")
    assert parser.parse_args(["ray", "deploy"]).http_host == "127.0.0.1"
    given = parser.parse_args(["ray", "deploy", "--http-host", "0.0.0.0", "--http-port", "9000"])
    assert (given.http_host, given.http_port) == ("0.0.0.0", 9000)
    assert option_values(given) == {"settings": {}}


def test_targets_are_the_replicas_of_the_application() -> None:
    assert targets(GROUPS, "attentive") == [
        {"targets": ["10.0.0.7:30001"], "labels": {"replica": REPLICA.name}}
    ]


@pytest.mark.parametrize("groups", [[], GROUPS[3:]])
def test_proxies_are_no_targets(groups: list[SimpleNamespace]) -> None:
    with pytest.raises(
        SettingsError, match=r"'attentive' has no replicas .* RAY_SERVE_ENABLE_HA_PROXY=1"
    ):
        targets(groups, "attentive")


@pytest.mark.parametrize("action", ["deploy", "targets"])
def test_without_the_extra_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "server.ray_serve.application", raising=False)
    assert main(["ray", action]) == 2
    assert "attentive-server[ray]" in capsys.readouterr().err


def test_wrong_options_are_refused_before_a_cluster_is_searched(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ray", "deploy", "--min-replicas", "3"]) == 2
    assert "max_replicas" in capsys.readouterr().err
