"""The echo of benchmarks.scale takes the place of a model runner."""

from __future__ import annotations

import inspect
import re

from benchmarks.scale.echo_worker import EchoRunner
from server.engine.worker import loop


def test_the_echo_has_all_that_the_loop_of_a_worker_uses() -> None:
    used = set(re.findall(r"_runner\.(\w+)", inspect.getsource(loop)))
    assert used and used <= set(dir(EchoRunner))
