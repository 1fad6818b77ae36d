"""Runs tasks in a separate process: started on demand, bounded in time, ended when idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from typing import Any

import orjson

from server.errors import Unavailable
from server.process import end_first, limit_processor_time
from server.work_threads import FairSlots

log = logging.getLogger(__name__)
TASK_SECONDS = 120
"""Longest processor time of a task."""
HANG_SECONDS = 1200.0
"""Longest time of a task by the clock, also where the machine is busy."""
IDLE_SECONDS = 60.0
"""Time without a task after which the process ends."""
RESULT_BYTES = 64_000_000
"""Longest result. A study of an encoder has some 100 bytes for each piece and layer."""
NICENESS = 10
"""Tasks have less priority than translations."""


class TaskProcess:
    """Runs the tasks of a Python module one at a time; callers take turns. The module reads a task
    in JSON from each line of its standard input and writes the result as a line. Belongs to one
    event loop."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._slots = FairSlots(1)
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.Task[None] | None = None

    async def run(self, task: dict[str, Any], caller: str = "") -> dict[str, Any]:
        """Returns the result of a task. Raises TimeoutError, MemoryError if the process ends during
        the task, or Unavailable if it does not start. Cancelling ends the process."""
        async with self._slots.hold(caller):
            if self._idle is not None:
                self._idle.cancel()
            result = await self._run(orjson.dumps(task) + b"\n")
            self._idle = asyncio.create_task(self._end_when_idle())
        return result

    async def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        await self._end()

    async def _run(self, line: bytes) -> dict[str, Any]:
        answer = b""
        process = self._process or await self._start()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("The process has pipes.")
        try:
            limit_processor_time(process.pid, TASK_SECONDS)
            async with asyncio.timeout(HANG_SECONDS):
                process.stdin.write(line)
                await process.stdin.drain()
                answer = await process.stdout.readline()
        except (TimeoutError, asyncio.CancelledError):
            await self._end()
            raise
        except OSError:
            pass  # the process has ended
        if not answer:
            await self._end()
            if process.returncode == -signal.SIGXCPU:
                raise TimeoutError
            log.warning(
                "the process of %s has ended",
                self._module,
                extra={"returncode": process.returncode},
            )
            raise MemoryError
        result: dict[str, Any] = orjson.loads(answer)
        return result

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self._module,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=RESULT_BYTES,
            )
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)  # from its first import on
            end_first(self._process.pid)
        except OSError as error:
            raise Unavailable(f"The process of {self._module} cannot be started.", 5) from error
        return self._process

    async def _end_when_idle(self) -> None:
        await asyncio.sleep(IDLE_SECONDS)
        await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)  # process.kill() could take the status
            await process.wait()
