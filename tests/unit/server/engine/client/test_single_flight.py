"""Identical computations in flight are shared."""

from __future__ import annotations

import asyncio

import pytest

from server.engine.client.single_flight import SingleFlight


def test_identical_computations_run_once():
    async def scenario() -> None:
        in_flight: SingleFlight[str] = SingleFlight()
        started: list[asyncio.Future[str]] = []

        def start() -> asyncio.Future[str]:
            started.append(asyncio.get_running_loop().create_future())
            return started[-1]

        waiters = [in_flight.join("key", start) for _ in range(6)]
        waiting = [asyncio.ensure_future(waiter.result()) for waiter in waiters]
        await asyncio.sleep(0)
        started[0].set_result("done")
        assert await asyncio.gather(*waiting) == ["done"] * 6
        assert (len(started), in_flight.shared, len(in_flight)) == (1, 5, 0)
        in_flight.join("key", start)
        assert len(started) == 2

    asyncio.run(scenario())


def test_the_last_waiter_that_leaves_cancels_the_computation():
    async def scenario() -> None:
        in_flight: SingleFlight[str] = SingleFlight()
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        first, second = (in_flight.join("key", lambda: future) for _ in range(2))
        waiting = asyncio.ensure_future(first.result())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        first.leave()
        first.leave()
        assert not future.cancelled()
        second.leave()
        assert future.cancelled() and len(in_flight) == 0

    asyncio.run(scenario())


def test_a_failure_reaches_every_waiter():
    async def scenario() -> None:
        in_flight: SingleFlight[str] = SingleFlight()
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiters = [in_flight.join("key", lambda: future) for _ in range(3)]
        future.set_exception(ValueError("no"))
        for waiter in waiters:
            with pytest.raises(ValueError, match="no"):
                await waiter.result()
            waiter.leave()

    asyncio.run(scenario())
