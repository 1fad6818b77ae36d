"""The time limit of a request as an asynchronous context manager."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from server.errors import DeadlineExceeded


def time_limit(deadline: float | None) -> TimeLimit:
    """Returns a context manager for `async with`. It cancels the block at `deadline`, in seconds on the monotonic
    clock, and raises DeadlineExceeded. With `deadline` None there is no limit."""
    return TimeLimit(deadline)


class TimeLimit:
    """The context manager of `time_limit`. It does what `asyncio.timeout` does, with half of its steps, because every
    request has one."""

    __slots__ = ("_cancelling", "_deadline", "_expired", "_task", "_timer")

    def __init__(self, deadline: float | None) -> None:
        self._deadline = deadline
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False

    async def __aenter__(self) -> None:
        if self._deadline is not None:
            self._task = task = asyncio.current_task()
            if task is None:
                raise RuntimeError("A time limit is for a task.")
            self._cancelling = task.cancelling()
            seconds = max(0.0, self._deadline - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(seconds, self._expire, task)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._expired and self._task is not None:
            # A task that something else has cancelled too stays cancelled.
            own = self._task.uncancel() <= self._cancelling
            if own and isinstance(error, asyncio.CancelledError):
                raise DeadlineExceeded("The time that this request allows has passed.") from error

    def _expire(self, task: asyncio.Task[object]) -> None:
        self._expired = True
        task.cancel()
