"""A small pool of processes that read and write documents, shared between the callers."""

from __future__ import annotations

import asyncio
from typing import Any

from server.documents.document import NO_MEMORY
from server.errors import PayloadTooLarge
from server.task_process import TaskProcess
from server.work_threads import FairSlots

PROCESSES = 3
"""Each may have `server.documents.reader_process.DATA_BYTES` of memory; they start on demand."""
CALLER_PROCESSES = 2
"""Processes of one caller: its slow files leave one for the others."""
READER_SECONDS = 60.0
"""Longest time to read or to write a document."""


class Readers:
    """Runs tasks of `server.documents.reader_process`. Belongs to one event loop."""

    def __init__(self) -> None:
        self.processes = [TaskProcess("server.documents.reader_process") for _ in range(PROCESSES)]
        self._free = list(self.processes)
        self._slots = FairSlots(PROCESSES, CALLER_PROCESSES)

    async def run(self, task: dict[str, Any], caller: str, order: int) -> dict[str, Any]:
        """Returns the result of a task. Callers take turns, and the task with the lowest `order` of a caller is first.
        Raises PayloadTooLarge if it needs too much time or memory."""
        async with self._slots.hold(caller, order):
            process = self._free.pop()  # the one that was used last, so that the others end
            try:
                async with asyncio.timeout(READER_SECONDS):
                    return await process.run(task)
            except TimeoutError:
                raise PayloadTooLarge("The file takes too long to read; split it.") from None
            except MemoryError:
                raise PayloadTooLarge(NO_MEMORY) from None
            finally:
                self._free.append(process)

    async def close(self) -> None:
        """Ends the processes."""
        for process in self.processes:
            await process.close()
