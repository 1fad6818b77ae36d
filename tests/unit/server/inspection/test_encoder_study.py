"""Studies of an encoder run one at a time, also where callers leave."""

from __future__ import annotations

import asyncio
import threading

import pytest

from server.inspection.encoder_study import in_turn


def test_a_caller_that_leaves_does_not_let_the_next_study_run_beside_its_own() -> None:
    running, finish = threading.Event(), threading.Event()

    def first() -> None:
        running.set()
        finish.wait(60)

    async def scenario() -> None:
        place = asyncio.Semaphore(1)
        caller = asyncio.create_task(in_turn(place, first))
        await asyncio.to_thread(running.wait, 60)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert place.locked()
        finish.set()
        assert await in_turn(place, lambda: "second") == "second"
        assert not place.locked()

    asyncio.run(scenario())


def test_errors_reach_the_caller_and_free_the_place() -> None:
    async def scenario() -> None:
        place = asyncio.Semaphore(1)
        with pytest.raises(ZeroDivisionError):
            await in_turn(place, lambda: 1 / 0)
        assert not place.locked()

    asyncio.run(scenario())
