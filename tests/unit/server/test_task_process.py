"""Tasks in a separate process. `tests/unit/server/documents/test_reader.py` has its bounds and its
replacement."""

from __future__ import annotations

import asyncio

import pytest

from server import task_process
from server.task_process import TaskProcess


@pytest.mark.slow
async def test_a_process_has_long_results_and_ends_when_it_is_idle(tmp_path, monkeypatch):
    """asyncio reads lines of at most 64 kB by default. Studies of long sentences have more."""
    (tmp_path / "echo_tasks.py").write_text(
        "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(task_process, "IDLE_SECONDS", 0.0)
    task = {"text": "x" * 1_000_000}

    tasks = TaskProcess("echo_tasks")
    for _ in range(2):
        assert await tasks.run(task) == task
        await asyncio.wait_for(tasks._process.wait(), 60)
    await tasks.close()


@pytest.mark.slow
async def test_a_task_is_bounded_by_the_processor_time_that_it_uses(tmp_path, monkeypatch):
    """A busy machine ends no task, and what computes without end is ended and replaced."""
    (tmp_path / "sums.py").write_text(
        "import sys\nfor line in sys.stdin:\n    while 'endless' in line: pass\n    print(line, end='', flush=True)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(task_process, "TASK_SECONDS", 1)
    tasks = TaskProcess("sums")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await tasks.run({"text": "endless"})
        assert await tasks.run({"text": "short"}) == {"text": "short"}
    await tasks.close()
