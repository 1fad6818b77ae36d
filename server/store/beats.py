"""Tasks that a store runs twice a second, such as the write of counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from server.errors import StateUnreachable

log = logging.getLogger(__name__)
BEAT_SECONDS = 0.5
Task = Callable[[], Awaitable[None]]


class Beats:
    """Runs tasks at every beat, from `start` to `stop`."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._beating: asyncio.Task[None] | None = None

    def add(self, task: Task) -> None:
        """Adds a task, which may raise StateUnreachable."""
        self._tasks.append(task)

    def start(self, beat: Task) -> None:
        """Calls `beat`, which calls `run`, after every BEAT_SECONDS."""
        self._beating = asyncio.create_task(self._beat_forever(beat))

    async def stop(self) -> None:
        """Ends the beats, and runs the tasks a last time if there were any."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
            await self.run()

    async def run(self) -> None:
        """Runs all tasks."""
        for task in self._tasks:
            try:
                await task()
            except StateUnreachable:
                continue  # at the next beat
            except Exception:  # a fault of one task must not end the beats
                log.exception("a task of the store failed")

    async def _beat_forever(self, beat: Task) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await beat()
