"""Turns are shared between the callers of documents."""

from __future__ import annotations

import asyncio

import pytest

from server.work_threads import FairSlots


def test_turns_go_to_the_caller_that_was_served_the_longest_time_ago():
    async def go() -> list[str]:
        slots, served = FairSlots(1), []

        async def work(caller: str, order: int) -> None:
            async with slots.hold(caller, order):
                served.append(f"{caller}{order}")

        async with slots.hold("a", 0):
            waiting = [asyncio.ensure_future(work("a", order)) for order in (2, 1, 3)]
            waiting += [asyncio.ensure_future(work("b", 4)), asyncio.ensure_future(work("c", 5))]
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert not slots._held and not slots._served and not slots._waiting
        return served

    assert asyncio.run(go()) == ["b4", "c5", "a1", "a2", "a3"]


@pytest.mark.parametrize("granted", [False, True])
async def test_a_cancelled_waiter_gives_its_turn_back(granted):
    slots = FairSlots(1)

    async def work() -> None:
        async with slots.hold("a", 0):
            pass

    async with slots.hold("a", 0):
        waiter = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        if not granted:
            waiter.cancel()
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    async with asyncio.timeout(60), slots.hold("b", 0):
        pass
