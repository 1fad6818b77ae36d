"""NumPy in the process of a command uses one thread; workers keep the environment of the operator."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # starts processes
PROGRAM = """
import os
from pathlib import Path
from server.__main__ import main
try:
    main(["serve", "--help"])
except SystemExit:
    import numpy
    print("threads", len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")
@pytest.mark.parametrize("given", [None, "2"])
def test_numpy_has_one_thread_unless_the_environment_says_otherwise(given):
    environment = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment["OMP_NUM_THREADS"] = "4"  # OpenBLAS reads it too
    if given is not None:
        environment["OPENBLAS_NUM_THREADS"] = given
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()[-1].split()
    assert words[0] == "threads"
    assert words[2] == str(given)
    if given is None:
        assert words[1] == "1"
