"""Client of the process that parses and writes documents: starts it on demand, bounds it in time, and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from typing import Any

import orjson

from server import errors
from server.documents.fair_slots import FairSlots
from server.errors import AttentiveError, PayloadTooLarge, Unavailable
from server.oom_score import end_first

log = logging.getLogger(__name__)
TASK_SECONDS = 120.0
"""Longest time to read or to write one document."""
IDLE_SECONDS = 60.0
"""The process ends after this time without a task."""
KEPT_BYTES = 80_000_000
"""The process ends after a task if it has used more memory than this."""
STOP_SECONDS = 5.0
NICENESS = 10
"""Documents are read with less priority than sentences are translated."""


class DocumentReader:
    """Runs tasks one at a time in a separate process. Callers take turns. Belongs to one event loop."""

    def __init__(self) -> None:
        self._turns = FairSlots(1)
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, task: dict[str, Any], caller: str, order: int) -> dict[str, Any]:
        """Returns the result of a task (see `server.documents.reader_process.perform`). Raises the error of the
        document, or PayloadTooLarge if the process needed too much time or memory."""
        async with self._turns.hold(caller, order):
            if self._idle is not None:
                self._idle.cancel()
            answer = await self._answer(orjson.dumps(task) + b"\n")
            if answer.get("peak_bytes", 0) > KEPT_BYTES:
                self._end()
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end)
        return checked(answer)

    async def close(self) -> None:
        """Ends the process."""
        if self._idle is not None:
            self._idle.cancel()
        self._end()
        await asyncio.gather(*self._ending)

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            process = self._process or await self._start()
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("The process has pipes.")
            async with asyncio.timeout(TASK_SECONDS):
                process.stdin.write(line)
                await process.stdin.drain()
                answer = await process.stdout.readline()
        except TimeoutError:
            self._end(kill=True)
            raise PayloadTooLarge("The file takes too long to read; split it.") from None
        except OSError:
            answer = b""
        except asyncio.CancelledError:
            self._end(kill=True)
            raise
        if not answer:
            code = self._process.returncode if self._process else None
            log.warning("the process that reads documents has ended", extra={"returncode": code})
            self._end(kill=True)
            raise PayloadTooLarge("The file needs more memory than this server has for one file; split it.")
        result: dict[str, Any] = orjson.loads(answer)
        return result

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "server.documents.reader_process",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)  # from its first import on
            end_first(self._process.pid)
        except OSError as error:
            raise Unavailable("The process that reads documents cannot be started.", 5) from error
        return self._process

    def _end(self, kill: bool = False) -> None:
        """Ends the process in the background. The next task starts another one."""
        process, self._process = self._process, None
        if process is not None:
            task = asyncio.ensure_future(end_process(process, kill))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def end_process(process: asyncio.subprocess.Process, kill: bool) -> None:
    """Closes the input of a process, which ends it, and kills it if it has not ended in time or if `kill`."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), 0 if kill else STOP_SECONDS)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the result of a task. Raises its error if it has failed."""
    if trace := answer.get("trace"):
        log.error("a file could not be translated", extra={"trace": trace})
    if name := answer.get("error"):
        kind: type[AttentiveError] = getattr(errors, name)
        raise kind(answer["message"])
    return answer
