"""The time limit behaves as `asyncio.timeout` does."""

from __future__ import annotations

import asyncio
import time

import pytest

from server.errors import DeadlineExceeded
from server.translation.time_limit import TimeLimit


def test_a_block_is_cancelled_at_the_deadline():
    async def scenario() -> str:
        with pytest.raises(DeadlineExceeded):
            async with TimeLimit(time.monotonic() - 1):
                await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None and not task.cancelling()
        await asyncio.sleep(0)  # the task goes on
        return "ended"

    assert asyncio.run(scenario()) == "ended"


@pytest.mark.parametrize("deadline", [None, 1e9])
def test_a_block_that_ends_in_time_is_not_disturbed(deadline):
    async def scenario() -> str:
        async with TimeLimit(deadline and time.monotonic() + deadline):
            await asyncio.sleep(0)
        return "ended"

    assert asyncio.run(scenario()) == "ended"


@pytest.mark.parametrize("late", [False, True], ids=["before the deadline", "at the deadline"])
def test_a_cancellation_from_elsewhere_stays_one(late):
    async def scenario() -> None:
        entered = asyncio.Event()

        async def limited() -> None:
            async with TimeLimit(time.monotonic() + (0 if late else 1e9)):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(limited())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_an_error_of_the_block_is_raised():
    async def scenario() -> None:
        with pytest.raises(KeyError):
            async with TimeLimit(time.monotonic() + 1e9):
                raise KeyError

    asyncio.run(scenario())
