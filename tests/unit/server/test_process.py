"""Processes: the threads of NumPy, tasks in a process of their own, and large pages."""

from __future__ import annotations

import asyncio
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from server import task_process
from server.process import LARGE_PAGE, use_large_pages
from server.task_process import TaskProcess

SIZE = 8 * LARGE_PAGE
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")
@pytest.mark.parametrize("program", [COMMAND, WORKER], ids=["command", "worker"])
@pytest.mark.parametrize("given", [None, "2"])
def test_numpy_has_one_thread_unless_the_environment_says_otherwise(given, program):
    """In the process of a command and in a worker."""
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


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, work: str = "") -> str:
    """Returns the name of a module that does some `work` for each task and writes it back."""
    (folder / "echo_tasks.py").write_text(
        f"import sys\nfor line in sys.stdin:\n    {work}\n    print(line, end='', flush=True)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return "echo_tasks"


@pytest.mark.slow
async def test_a_process_has_long_results_and_ends_when_it_is_idle(tmp_path, monkeypatch):
    """asyncio reads lines of at most 64 kB by default. Studies of long sentences have more."""
    monkeypatch.setattr(task_process, "IDLE_SECONDS", 0.0)
    task = {"text": "x" * 1_000_000}

    tasks = TaskProcess(module(tmp_path, monkeypatch))
    for _ in range(2):
        assert await tasks.run(task) == task
        await asyncio.wait_for(tasks._process.wait(), 60)
    await tasks.close()


@pytest.mark.slow
async def test_callers_take_turns(tmp_path, monkeypatch):
    tasks, done = TaskProcess(module(tmp_path, monkeypatch)), []

    async def run(caller: str) -> None:
        await tasks.run({}, caller)
        done.append(caller)

    await asyncio.gather(*map(run, ["hog"] * 5 + ["polite"]))
    assert done.index("polite") == 1
    await tasks.close()


@pytest.mark.slow
async def test_a_task_is_bounded_by_the_processor_time_that_it_uses(tmp_path, monkeypatch):
    """A busy machine ends no task, and what computes without end is ended and replaced."""
    monkeypatch.setattr(task_process, "TASK_SECONDS", 1)
    tasks = TaskProcess(module(tmp_path, monkeypatch, "while 'endless' in line: pass"))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await tasks.run({"text": "endless"})
        assert await tasks.run({"text": "short"}) == {"text": "short"}
    await tasks.close()


def kilobytes(name: str) -> int:
    rollup = Path("/proc/self/smaps_rollup")
    lines = rollup.read_text(encoding="ascii").splitlines() if rollup.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def test_data_is_moved_unchanged_and_memory_that_is_not_resident_stays_so():
    """Also what is not resident takes no memory."""
    full, sparse = (mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(2))
    content = bytes(range(256)) * (SIZE // 256)
    full[:] = content
    for at in range(0, SIZE, LARGE_PAGE):
        sparse[at] = 1
    resident, large = kilobytes("Rss"), kilobytes("AnonHugePages")
    moved = use_large_pages()
    assert full[:] == content
    assert sum(sparse[at] for at in range(0, SIZE, LARGE_PAGE)) == SIZE // LARGE_PAGE
    assert sparse[1:LARGE_PAGE] == bytes(LARGE_PAGE - 1)
    assert 1024 * (kilobytes("Rss") - resident) < moved / 7 + LARGE_PAGE
    assert moved >= 1024 * (kilobytes("AnonHugePages") - large)
    assert use_large_pages() >= 0  # a second time
