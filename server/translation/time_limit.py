"""The time limit of a request as an asynchronous context manager."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from server.errors import DeadlineExceeded


def time_limit(deadline: float | None) -> TimeLimit:
    """Returns a context manager for `async with`. It cancels the block at `deadline`, in seconds on the monotonic
    clock, and raises DeadlineExceeded. With `deadline` None there is no limit."""
    return TimeLimit(asyncio.timeout(None if deadline is None else deadline - time.monotonic()))


class TimeLimit:
    """The context manager of `time_limit`. A class, because a generator would cost more time on every request."""

    __slots__ = ("_timeout",)

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            raise DeadlineExceeded("The time that this request allows has passed.") from expired
