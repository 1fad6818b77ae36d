"""The memory of a process and of the processes below it."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.endurance.server import resident_megabytes, tree_megabytes

PROGRAM = "import os, sys; kept = bytes(50_000_000); os.fork() and print('forked', flush=True); sys.stdin.read()"


def test_a_child_that_has_not_started_its_program_does_not_count_twice() -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert tree_megabytes(process.pid) < 1.5 * resident_megabytes(process.pid)
        process.communicate()
