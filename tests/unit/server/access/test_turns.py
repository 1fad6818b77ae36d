"""Requests whose work begins in one iteration of the event loop: few, and of all callers in
turn."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from server.access.turns import FEWEST, MOST, Turns


def run(
    callers: list[str],
    cancelled: frozenset[int] = frozenset(),
    own: float = 1.0,
    other: float = 1.0,
) -> list[tuple[int, str]]:
    """Sends requests of these callers at once. Returns the iteration and the caller of each that
    went on, in order. One of them takes `own` seconds of the loop, and the rest of each iteration
    `other`."""

    async def main() -> list[tuple[int, str]]:
        now, iteration, done = 0.0, 0, []
        turns = Turns(lambda: now)

        async def request(caller: str) -> None:
            nonlocal now
            await turns.next(caller)
            now += own
            done.append((iteration, caller))

        tasks = [asyncio.create_task(request(caller)) for caller in callers]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            iteration += 1
            now += other
            for number in cancelled if iteration == 2 else ():
                tasks[number].cancel()
        return done

    return asyncio.run(main())


def test_few_requests_go_on_in_one_iteration_and_all_do():
    rng = random.Random(7)
    callers = [rng.choice("abc") for _ in range(100)]
    done = run(callers)
    assert Counter(caller for _, caller in done) == Counter(callers)
    per_iteration = Counter(iteration for iteration, _ in done)
    assert max(per_iteration.values()) <= FEWEST
    assert max(per_iteration) <= 100 // FEWEST + 3, "iterations passed without work"


def test_no_caller_waits_behind_all_requests_of_another():
    done = [caller for _, caller in run(["hog"] * 200 + ["polite"])]
    assert done.index("polite") < 3 * FEWEST


def test_a_cancelled_request_takes_nobodys_turn():
    cancelled = frozenset(range(50, 90))
    assert len(run(["a"] * 100, cancelled)) == 60


@pytest.mark.parametrize("other", [1.0, 10.0, 40.0, 100.0, 1_000.0])
def test_rejections_do_not_take_the_whole_time_of_the_loop(other):
    per_iteration = Counter(iteration for iteration, _ in run(["a"] * 5_000, other=other))
    fewest = min(list(per_iteration.values())[8:-1])
    assert fewest >= min(MOST / 2, 0.4 * other)
    assert max(per_iteration.values()) <= max(FEWEST, min(MOST, 4 * other))
