"""The time limit behaves as `asyncio.timeout` does."""

from __future__ import annotations

import asyncio
import time

import pytest

from server.errors import DeadlineExceeded
from server.translation.time_limit import time_limit


def test_a_block_is_cancelled_at_the_deadline():
    async def scenario() -> None:
        with pytest.raises(DeadlineExceeded):
            async with time_limit(time.monotonic() - 1):
                await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None and not task.cancelling()
        await asyncio.sleep(0)  # the task goes on
        async with time_limit(None), time_limit(time.monotonic() + 1e9):
            await asyncio.sleep(0)

    asyncio.run(scenario())


@pytest.mark.parametrize("late", [False, True], ids=["before the deadline", "at the deadline"])
def test_a_cancellation_from_elsewhere_stays_one(late):
    async def scenario() -> None:
        entered = asyncio.Event()

        async def limited() -> None:
            async with time_limit(time.monotonic() + (0 if late else 1e9)):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(limited())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [KeyError, TimeoutError])
def test_an_error_of_the_block_is_raised(error):
    async def scenario() -> None:
        async with time_limit(time.monotonic() + 1e9):
            raise error

    with pytest.raises(error):
        asyncio.run(scenario())
