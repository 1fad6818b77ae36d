"""Ray Serve (extra `ray`, which CI does not install)."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.support.servers.live import ROOT

pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed (extra: ray)"),
]


def test_the_options_of_the_deployment_are_those_of_this_version_of_ray() -> None:
    program = (
        "from server.ray_serve.application import build, deployment_options; from "
        "server.ray_serve.options import Options\n"
        "options = deployment_options(Options(max_replicas=4))\n"
        "config = options['autoscaling_config']\n"
        "assert config.policy.get_policy()(4000.0).__class__.__name__ == 'WaitingTokens'\n"
        "assert options['ray_actor_options']['runtime_env']['env_vars']['OPENBLAS_NUM_THREADS'] == "
        "'1'\n"
        "build({'max_replicas': 4, 'gpus': 1, 'settings': {'log_format': 'json'}})\n"
        "build({'min_replicas': 2, 'max_replicas': 2})\n"
        "from uvicorn.protocols.http import httptools_impl; from server.ray_serve.application "
        "import Server\n"
        "import asyncio; asyncio.run(Server.__new__(Server).__init__({}))\n"
        "assert httptools_impl.RequestResponseCycle.__name__ == 'Cycle'\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
