"""`attentive ray`: its flags, the list of replicas for Prometheus, and the errors of a machine without Ray."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from server.__main__ import main, make_parser
from server.cli.ray import option_values, targets
from server.errors import SettingsError
from server.ray_serve.options import Options

REPLICA = SimpleNamespace(ip="10.0.0.7", port=30001, instance_id="i", name="SERVE_REPLICA::attentive#Server#abc")
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
    assert targets(GROUPS, "attentive") == [{"targets": ["10.0.0.7:30001"], "labels": {"replica": REPLICA.name}}]


@pytest.mark.parametrize("groups", [[], GROUPS[3:]])
def test_proxies_are_no_targets(groups: list[SimpleNamespace]) -> None:
    with pytest.raises(SettingsError, match=r"'attentive' has no replicas .* RAY_SERVE_ENABLE_HA_PROXY=1"):
        targets(groups, "attentive")


@pytest.mark.parametrize("action", ["deploy", "targets"])
def test_without_the_extra_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "server.ray_serve.application", raising=False)
    assert main(["ray", action]) == 2
    assert "attentive-server[ray]" in capsys.readouterr().err


def test_wrong_options_are_refused_before_a_cluster_is_searched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ray", "deploy", "--min-replicas", "3"]) == 2
    assert "max_replicas" in capsys.readouterr().err
