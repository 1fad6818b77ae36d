"""The time limit of a request as an asynchronous context manager."""

from __future__ import annotations

import asyncio
from types import TracebackType

from server.errors import DeadlineExceeded


class TimeLimit:
    """`async with`: cancels its block at `deadline`, in seconds on the monotonic clock, which is that of the event loop,
    and raises DeadlineExceeded. With `deadline` None there is no limit."""

    __slots__ = ("_timeout",)

    def __init__(self, deadline: float | None) -> None:
        self._timeout = asyncio.timeout_at(deadline)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            raise DeadlineExceeded("The time that this request allows has passed.") from expired
