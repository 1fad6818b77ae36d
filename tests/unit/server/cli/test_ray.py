"""`attentive ray`: its flags, the list of replicas for Prometheus, and the errors of a machine without Ray."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from server.__main__ import main, make_parser
from server.cli.ray import option_values, targets
from server.ray_serve.options import Options

REPLICA = {"ip": "10.0.0.7", "port": 30001, "instance_id": "i", "name": "SERVE_REPLICA::attentive#Server#abc"}
FOUND = {
    "target_groups": [
        {"protocol": "HTTP", "app_name": "attentive", "route_prefix": "/", "targets": [REPLICA]},
        {"protocol": "HTTP", "app_name": "another", "route_prefix": "/x", "targets": [REPLICA]},
        {"protocol": "gRPC", "app_name": "attentive", "route_prefix": "/", "targets": [REPLICA]},
    ]
}
EXPECTED = [{"targets": ["10.0.0.7:30001"], "labels": {"replica": REPLICA["name"]}}]


def test_flags_become_options_and_settings() -> None:
    words = ["ray", "deploy", "--max-replicas", "4", "--router", "model", "--queue-tokens", "900", "--weights", "/srv"]
    options = Options.read(option_values(make_parser("ray").parse_args(words)))
    assert options == Options(max_replicas=4, router="model", settings={"queue_tokens": "900", "weights": "/srv"})


def test_the_address_of_the_listener_is_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ray", "deploy", "--port", "80"])
    assert "--port" in capsys.readouterr().err


def test_targets_are_the_replicas_of_the_application() -> None:
    assert targets(FOUND, "attentive") == EXPECTED
    assert targets({}, "attentive") == []


def test_targets_are_read_from_the_dashboard(capsys: pytest.CaptureFixture[str]) -> None:
    class Dashboard(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/api/serve/applications/"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(FOUND).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Dashboard) as server:
        Thread(target=server.handle_request).start()
        assert main(["ray", "targets", "--dashboard", f"http://127.0.0.1:{server.server_port}/"]) == 0
    assert json.loads(capsys.readouterr().out) == EXPECTED


def test_a_dashboard_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ray", "targets", "--dashboard", "http://127.0.0.1:9"]) == 2
    assert "http://127.0.0.1:9 does not answer" in capsys.readouterr().err


def test_without_the_extra_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "server.ray_serve.application", raising=False)
    assert main(["ray", "deploy"]) == 2
    assert "attentive-server[ray]" in capsys.readouterr().err


def test_wrong_options_are_refused_before_a_cluster_is_searched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ray", "deploy", "--min-replicas", "3"]) == 2
    assert "max_replicas" in capsys.readouterr().err
