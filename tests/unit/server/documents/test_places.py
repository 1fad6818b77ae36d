"""Places and turns are shared between callers, and a caller that returns after its Retry-After gets a place."""

from __future__ import annotations

import asyncio

import pytest

from server.documents.places import FairSlots, Places
from server.errors import Overloaded


def taken(places: Places, caller: str, count: int) -> list:
    """Returns the places that a caller gets when it asks `count` times."""
    found = []
    for i in range(count):
        try:
            found.append(places.take(caller, 1, i))
        except Overloaded:
            break
    return found


def test_one_caller_gets_half_of_the_places_and_others_always_one():
    places = Places(64, 10**9)
    assert [len(taken(places, caller, 100)) for caller in "abcdef"] == [32, 16, 8, 4, 2, 1]
    assert len(taken(places, "g", 100)) == 1  # the last one


def test_bytes_are_shared_like_places_and_a_single_document_may_have_any_size():
    places = Places(64, 100)
    large = places.take("a", 1_000)
    with pytest.raises(Overloaded):
        places.take("b", 1)
    places.release(large)
    places.release(large)
    places.take("a", 50)
    with pytest.raises(Overloaded):
        places.take("a", 1)
    places.take("b", 50)


def test_following_retry_after_succeeds():
    """Documents take 30 seconds each, one after another; a caller whose share is used returns when it is told to."""
    now = [0.0]
    places = Places(16, 10**9, lambda: now[0])
    waiting = taken(places, "a", 100)
    finish = 30.0
    for attempt in range(20):
        try:
            waiting.append(places.take("a", 1, attempt))
            continue
        except Overloaded as refused:
            returning = now[0] + refused.retry_after
        assert returning - now[0] <= 120
        while waiting and finish <= returning:
            now[0] = finish
            places.release(waiting.pop(0))
            finish += 30.0
        now[0] = returning
        waiting.append(places.take("a", 1, attempt))


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
def test_a_cancelled_waiter_gives_its_turn_back(granted):
    async def go() -> None:
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
        async with asyncio.timeout(10), slots.hold("b", 0):
            pass

    asyncio.run(go())
