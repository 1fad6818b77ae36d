"""The overlays in deploy/kubernetes are rendered, match the schemas of Kubernetes, and name what
exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from server.config import Settings
from tests.unit.deploy.test_deploy import SERVICES

ROOT = Path(__file__).parents[3]
KUBERNETES = ROOT / "deploy/kubernetes"
OVERLAYS = sorted(path.parent.name for path in KUBERNETES.glob("overlays/*/kustomization.yaml"))
MONITORING = "monitoring.coreos.com/v1"
CUSTOM = {
    "ScaledObject": "keda.sh/v1alpha1",
    "ServiceMonitor": MONITORING,
    "PrometheusRule": MONITORING,
}
"""The apiVersion of kinds without a schema here."""


@cache
def kubectl_renders() -> bool:
    """Returns whether kubectl has kustomize 4 or later, which knows components (kubectl 1.24 and
    later say so)."""
    if shutil.which("kubectl") is None:
        return False
    said = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return "kustomizeVersion" in json.loads(said.stdout)
    except ValueError:
        return False


@cache
def rendered(overlay: str) -> list[dict[str, Any]]:
    if not kubectl_renders():
        pytest.skip("no kubectl 1.24 or later (Debian package: kubernetes-client)")
    command = ["kubectl", "kustomize", str(KUBERNETES / "overlays" / overlay)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""  # deprecated fields
    return list(yaml.safe_load_all(run.stdout))


def found(overlay: str, kind: str, name: str = "attentive") -> dict[str, Any]:
    [one] = [
        item
        for item in rendered(overlay)
        if item["kind"] == kind and item["metadata"]["name"] == name
    ]
    return one


def metrics_of_autoscaling(overlay: str) -> set[str]:
    """Returns the metrics that a ScaledObject or a HorizontalPodAutoscaler reads."""
    scalers = [
        item
        for item in rendered(overlay)
        if item["kind"] in ("ScaledObject", "HorizontalPodAutoscaler")
    ]
    return set(re.findall(r"\battentive_\w+", json.dumps([item["spec"] for item in scalers])))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_matches_its_schema(overlay: str) -> None:
    for item in rendered(overlay):
        if item["kind"] in CUSTOM:
            assert item["apiVersion"] == CUSTOM[item["kind"]]
        else:
            kubernetes_validate.validate(item, "1.31", strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_meets_the_restricted_standard(overlay: str) -> None:
    workloads = [
        item for item in rendered(overlay) if item["kind"] in ("Deployment", "StatefulSet")
    ]
    assert workloads
    for pod in (item["spec"]["template"]["spec"] for item in workloads):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            assert re.search(r":\d+\.\d+\.\d+(-gpu)?$", container["image"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_names_labels_and_volumes_refer_to_existing_objects(overlay: str) -> None:
    deployment = found(overlay, "Deployment")
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert found(overlay, "Service")["spec"]["selector"] == labels
    assert found(overlay, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert found(overlay, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    names = {(item["kind"], item["metadata"]["name"]) for item in rendered(overlay)}
    for volume in template["spec"]["volumes"]:
        kinds = set(volume) - {"name"}
        assert len(kinds) == 1
        if "persistentVolumeClaim" in volume:
            assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in names
    for item in rendered(overlay):
        if item["kind"] in ("ScaledObject", "HorizontalPodAutoscaler"):
            assert item["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
            assert "replicas" not in deployment["spec"]  # applying again would undo the autoscaler
        if item["kind"] == "ServiceMonitor":
            assert (
                item["spec"]["selector"]["matchLabels"].items()
                <= found(overlay, "Service")["metadata"]["labels"].items()
            )
            assert (
                item["spec"]["endpoints"][0]["port"]
                == found(overlay, "Service")["spec"]["ports"][0]["name"]
            )


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_settings_exist_and_leave_time_to_drain(overlay: str) -> None:
    template = found(overlay, "Deployment")["spec"]["template"]["spec"]
    server = template["containers"][0]
    [settings] = [
        source["configMapRef"]["name"] for source in server["envFrom"] if "configMapRef" in source
    ]
    values = found(overlay, "ConfigMap", settings)["data"]
    # raises SettingsError for a value that the server refuses
    read = Settings.read(environment=values)
    assert {f"ATTENTIVE_{name.upper()}" for name in Settings.__slots__} >= set(values)
    sleep = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
    assert (
        template["terminationGracePeriodSeconds"] > sleep + read.drain_seconds + read.grace_seconds
    )


def test_the_images_are_those_of_compose() -> None:
    images = {
        container["image"]
        for overlay in OVERLAYS
        for item in rendered(overlay)
        if item["kind"] in ("Deployment", "StatefulSet")
        for container in item["spec"]["template"]["spec"]["containers"]
    }
    assert {image.removeprefix("registry.example.org/") for image in images} == {
        SERVICES[name]["image"] for name in ("server", "server-gpu", "redis")
    }


def test_the_rules_for_the_operator_are_those_of_prometheus() -> None:
    rule = yaml.safe_load(
        (KUBERNETES / "components/monitoring/prometheus-rule.yaml").read_text(encoding="utf-8")
    )
    assert rule["spec"] == yaml.safe_load(
        (ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8")
    )


def test_keda_asks_for_the_namespace_of_the_pods() -> None:
    namespace = found("autoscaled", "Deployment")["metadata"]["namespace"]
    for trigger in found("autoscaled", "ScaledObject")["spec"]["triggers"]:
        assert f'{{namespace="{namespace}"}}' in trigger["metadata"]["query"]


def settings_of(overlay: str) -> dict[str, str]:
    maps = [item for item in rendered(overlay) if item["kind"] == "ConfigMap"]
    return next(
        item["data"] for item in maps if item["metadata"]["name"].startswith("attentive-settings")
    )


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_without_a_shared_state_have_no_keys(overlay: str) -> None:
    read = Settings.read(environment=settings_of(overlay))
    assert read.data is None and read.state.startswith("redis://") == (overlay != "cpu")


def test_secrets_reach_the_server_and_its_redis() -> None:
    server = found("example", "Deployment")["spec"]["template"]["spec"]["containers"][0]
    # the last one is used
    assert server["envFrom"][-1] == {"secretRef": {"name": "attentive-secrets"}}
    redis = found("example", "StatefulSet", "attentive-redis")["spec"]["template"]["spec"][
        "containers"
    ][0]
    names = [variable["name"] for variable in server["env"]]
    assert names.index("REDIS_PASSWORD") < names.index("ATTENTIVE_STATE")  # which refers to it
    password = server["env"][names.index("REDIS_PASSWORD")]["valueFrom"]
    assert redis["env"][0]["valueFrom"] == password and "$(REDISCLI_AUTH)" in redis["args"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_keeps_what_the_base_has(overlay: str) -> None:
    """Environment, volumes, probes and security of every container: a patch of one component
    replaces no list of another."""
    base = next(item for item in rendered("../base") if item["kind"] == "Deployment")["spec"][
        "template"
    ]["spec"]
    spec = found(overlay, "Deployment")["spec"]["template"]["spec"]
    [server], [own] = base["containers"], spec["containers"]
    for one, other, key in (
        (server["env"], own["env"], "name"),
        (server["volumeMounts"], own["volumeMounts"], "mountPath"),
        (base["volumes"], spec["volumes"], "name"),
    ):
        assert {item[key] for item in one} <= {item[key] for item in other}
    assert {variable["name"]: variable for variable in own["env"]}.items() >= {
        variable["name"]: variable for variable in server["env"]
    }.items()
    kept = [name for name in server if name.endswith("Probe") or name == "securityContext"]
    assert kept and all(own[name] == server[name] for name in kept)
    assert len(own["envFrom"]) >= len(server["envFrom"])


def test_an_update_on_gpus_needs_no_spare_one() -> None:
    assert found("gpu", "Deployment")["spec"]["strategy"]["rollingUpdate"] == {
        "maxUnavailable": 1,
        "maxSurge": 0,
    }


def test_the_ingress_leads_to_the_service_and_hides_what_is_for_operators() -> None:
    [rule] = found("example", "Ingress")["spec"]["rules"]
    backends = {path["path"]: path["backend"]["service"]["name"] for path in rule["http"]["paths"]}
    assert backends == {
        "/": "attentive",
        "/metrics": "attentive-hidden",
        "/admin": "attentive-hidden",
    }
    assert "selector" not in found("example", "Service", "attentive-hidden")["spec"]
    assert settings_of("example")["ATTENTIVE_PUBLIC_URL"] == f"https://{rule['host']}"


def test_the_adapter_offers_the_metrics_of_the_autoscaler() -> None:
    values = yaml.safe_load(
        (KUBERNETES / "overlays/autoscaled-hpa/adapter-values.yaml").read_text(encoding="utf-8")
    )
    [rule] = values["rules"]["custom"]
    assert set(re.findall(r"attentive_\w+", rule["seriesQuery"])) == metrics_of_autoscaling(
        "autoscaled-hpa"
    )
