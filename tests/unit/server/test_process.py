"""NumPy has one thread in the process of a command and in a worker, unless the environment says
otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # starts processes
REPORT = 'print("threads", len(os.listdir("/proc/self/task")), flush=True)'
COMMAND = f"""
import os
from server.__main__ import main
try:
    main(["serve", "--help"])
except SystemExit:
    import numpy
    {REPORT}
"""
WORKER = f"""
import os, runpy, sys
from server.engine.ipc.options import WorkerOptions
leave = os._exit
def report_and_leave(code):
    import numpy
    {REPORT}
    leave(code)
os._exit = report_and_leave
sys.argv[1:] = ["0", WorkerOptions(device="cpu").to_json()]  # it ends at once: its input is empty
runpy.run_module("server.engine.worker", run_name="__main__")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")
@pytest.mark.parametrize("program", [COMMAND, WORKER], ids=["command", "worker"])
@pytest.mark.parametrize("given", [None, "2"])
def test_numpy_has_one_thread_unless_the_environment_says_otherwise(given, program):
    environment = {
        name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")
    }
    environment["OMP_NUM_THREADS"] = "4"  # OpenBLAS reads it too
    if given is not None:
        environment["OPENBLAS_NUM_THREADS"] = given
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    # a worker prints to its standard error
    words = (done.stderr or done.stdout).decode().splitlines()[-1].split()
    assert words[0] == "threads"
    assert words[1] == (given or "1")
