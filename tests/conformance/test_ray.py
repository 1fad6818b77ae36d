"""Ray Serve (extra `ray`, which CI does not install): two nodes on this machine, of which one is killed under load."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.live import ROOT
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed (extra: ray)"),
]


@pytest.mark.parametrize("proxy", ["haproxy", "ray"])
def test_a_node_that_ends_loses_no_request(tiny_weights: Path, proxy: str) -> None:
    command = [sys.executable, "-m", "benchmarks.endurance.nodes", "kill", "--proxy", proxy, "--seconds", "20"]
    command += ["--weights", str(tiny_weights), "--port", str(free_port()), "--clients", "8", "--number", "10"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(run.stdout.splitlines()[-1])["kill"]
    assert found["of these after the kill"] > 0
    assert (found["lost"], found["wrong"]) == ({}, 0)
    if proxy == "haproxy":  # it repeats what the node had accepted, and the clients see nothing
        assert found["repeated by clients"] == 0


def test_the_options_of_the_deployment_are_those_of_this_version_of_ray() -> None:
    program = (
        "from server.ray_serve.application import build, deployment_options; from server.ray_serve.options import Options\n"
        "options = deployment_options(Options(max_replicas=4, router='model'))\n"
        "config = options['autoscaling_config']\n"
        "assert config.policy.get_policy()(4000.0).__class__.__name__ == 'WaitingTokens'\n"
        "assert options['ray_actor_options']['runtime_env']['env_vars']['OPENBLAS_NUM_THREADS'] == '1'\n"
        "build({'max_replicas': 4, 'router': 'model', 'gpus': 1, 'settings': {'log_format': 'json'}})\n"
        "build({'min_replicas': 2, 'max_replicas': 2})\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
