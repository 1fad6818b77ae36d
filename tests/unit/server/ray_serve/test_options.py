"""Options of the Ray Serve application: read from a file or flags, complete, and refused where they make no sense."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.config import Settings
from server.errors import SettingsError
from server.ray_serve.options import NOT_FOR_REPLICAS, Options

SERVE_FILE = Path(__file__).parents[4] / "deploy" / "ray" / "serve.yaml"


def test_values_of_a_file_become_options() -> None:
    options = Options.read({"max_replicas": 4, "cpus": 2, "settings": {"key_required": True, "queue_tokens": 1000}})
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
    assert Options(settings={"state": "redis://redis:6379/0"}).replica_settings()["state"] == "redis://redis:6379/0"


def test_a_replica_has_threads_for_its_cores_and_time_to_finish() -> None:
    assert Options(cpus=2.5).replica_settings() == {"threads": "3"}
    assert Options(cpus=4, settings={"threads": "2"}).replica_settings() == {"threads": "2"}
    assert Options(cpus=4, gpus=1).replica_settings() == {}
    assert Options(settings={"grace_seconds": "45"}).stop_seconds() > 45


def test_every_setting_but_those_of_the_listener_can_be_given() -> None:
    names = {item.name for item in dataclasses.fields(Settings)} - set(NOT_FOR_REPLICAS)
    texts = {item.name: str(item.default).lower() for item in dataclasses.fields(Settings) if item.name in names}
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
        for probe in ("readinessProbe", "livenessProbe"):  # KubeRay adds its own otherwise, which need wget
            assert container[probe]["httpGet"]["port"] in ports
    assert worker["template"]["spec"]["terminationGracePeriodSeconds"] > options.stop_seconds()


def test_the_version_of_ray_is_the_pinned_one() -> None:
    service = yaml.safe_load(SERVE_FILE.read_text(encoding="utf-8"))["spec"]
    pins = (SERVE_FILE.parents[2] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"ray=={service['rayClusterConfig']['rayVersion']}" in pins
