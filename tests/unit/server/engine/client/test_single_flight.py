"""Identical computations in flight are shared."""

from __future__ import annotations

import asyncio

from server.engine.client.single_flight import SingleFlight


def test_identical_computations_run_once():
    async def scenario() -> None:
        in_flight: SingleFlight[str] = SingleFlight()
        started: list[asyncio.Future[str]] = []

        def start() -> asyncio.Future[str]:
            started.append(asyncio.get_running_loop().create_future())
            return started[-1]

        waiting = [asyncio.ensure_future(in_flight.run("key", start)) for _ in range(6)]
        await asyncio.sleep(0)
        started[0].set_result("done")
        assert await asyncio.gather(*waiting) == ["done"] * 6
        assert (len(started), in_flight.shared, len(in_flight)) == (1, 5, 0)
        later = asyncio.ensure_future(in_flight.run("key", start))
        await asyncio.sleep(0)
        assert len(started) == 2
        later.cancel()

    asyncio.run(scenario())


def test_the_last_caller_that_leaves_cancels_the_computation():
    async def scenario() -> None:
        in_flight: SingleFlight[str] = SingleFlight()
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        callers = [asyncio.ensure_future(in_flight.run("key", lambda: future)) for _ in range(2)]
        await asyncio.sleep(0)
        callers[0].cancel()
        await asyncio.sleep(0)
        assert not future.cancelled()
        callers[1].cancel()
        await asyncio.sleep(0)
        assert future.cancelled() and len(in_flight) == 0

    asyncio.run(scenario())
