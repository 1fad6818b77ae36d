"""Client of the process that parses and writes documents, `server.documents.reader_process`."""

from __future__ import annotations

import logging
from typing import Any

from server import errors
from server.documents.fair_slots import FairSlots
from server.errors import AttentiveError, PayloadTooLarge
from server.task_process import TaskProcess

log = logging.getLogger(__name__)
TASK_SECONDS = 120.0
"""Longest time to read or to write one document."""
KEPT_BYTES = 80_000_000
"""The process ends after a task if it has used more memory than this."""


class DocumentReader:
    """Runs tasks one at a time in a separate process. Callers take turns. Belongs to one event loop."""

    def __init__(self) -> None:
        self._turns = FairSlots(1)
        self.process = TaskProcess("server.documents.reader_process", TASK_SECONDS, KEPT_BYTES)

    async def run(self, task: dict[str, Any], caller: str, order: int) -> dict[str, Any]:
        """Returns the result of a task (see `server.documents.reader_process.perform`). Raises the error of the
        document, or PayloadTooLarge if the process needed too much time or memory."""
        async with self._turns.hold(caller, order):
            try:
                return checked(await self.process.run(task))
            except TimeoutError:
                raise PayloadTooLarge("The file takes too long to read; split it.") from None
            except MemoryError:
                raise PayloadTooLarge(
                    "The file needs more memory than this server has for one file; split it."
                ) from None

    async def close(self) -> None:
        """Ends the process."""
        await self.process.close()


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the result of a task. Raises its error if it has failed."""
    if trace := answer.get("trace"):
        log.error("a file could not be translated", extra={"trace": trace})
    if name := answer.get("error"):
        kind: type[AttentiveError] = getattr(errors, name)
        raise kind(answer["message"])
    return answer
