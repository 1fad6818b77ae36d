"""The time limit of a request as an asynchronous context manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.errors import DeadlineExceeded


@asynccontextmanager
async def time_limit(deadline: float | None) -> AsyncIterator[None]:
    """Cancels its block at `deadline`, in seconds on the monotonic clock, which is that of the event loop, and raises
    DeadlineExceeded. With `deadline` None there is no limit."""
    try:
        async with asyncio.timeout_at(deadline) as timeout:
            yield
    except TimeoutError as error:
        if timeout.expired():
            raise DeadlineExceeded("The time that this request allows has passed.") from error
        raise
