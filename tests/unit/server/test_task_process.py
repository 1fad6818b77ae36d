"""Tasks in a separate process. `tests/unit/server/documents/test_reader.py` has its bounds and its replacement."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server.task_process import TaskProcess


@pytest.mark.slow
def test_results_may_be_longer_than_the_buffer_of_a_pipe(tmp_path, monkeypatch):
    """asyncio reads lines of at most 64 kB by default. Studies of long sentences have more."""
    (tmp_path / "echo_tasks.py").write_text("import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    task = {"text": "x" * 1_000_000}

    async def run() -> dict[str, Any]:
        process = TaskProcess("echo_tasks")
        try:
            return await process.run(task)
        finally:
            await process.close()

    assert asyncio.run(run()) == task
