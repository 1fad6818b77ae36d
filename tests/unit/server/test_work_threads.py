"""Turns of callers for slots, on the event loop and in threads."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise

import pytest

from server import work_threads
from server.work_threads import FEWEST, MOST, THREADS, FairSlots, LoopTurns, Turns, WorkThreads


async def test_it_returns_results_and_raises_exceptions() -> None:
    work = WorkThreads(LoopTurns())
    assert await work.run("a", 1, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await work.run("a", 1, divmod, 7, 0)


async def test_a_function_keeps_its_slot_to_its_end_when_its_caller_is_cancelled() -> None:
    work = WorkThreads(LoopTurns())
    started = threading.Event()
    may_end = threading.Event()
    order = list[str]()

    def long() -> None:
        started.set()
        may_end.wait(60)
        order.append("first")

    first = asyncio.create_task(work.run("a", 1, long))
    waiting = [
        asyncio.create_task(work.run("a", 1, order.append, name)) for name in ("second", "third")
    ]
    await asyncio.to_thread(started.wait, 60)
    waiting[0].cancel()  # before it begins
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.sleep(0.01)
    assert not waiting[1].done() and not order
    may_end.set()
    await waiting[1]
    assert order == ["first", "third"]


async def test_a_caller_has_one_thread_and_all_callers_have_two() -> None:
    work, running, most = WorkThreads(LoopTurns()), Counter[str](), Counter[str]()

    def step(caller: str) -> None:
        running[caller] += 1
        most[caller] = max(most[caller], running[caller])
        most["all"] = max(most["all"], running.total())
        time.sleep(0.001)
        running[caller] -= 1

    await asyncio.gather(*[work.run(caller, 1, step, caller) for caller in "aaaaabbbbbcc"])
    assert max(most["a"], most["b"], most["c"]) == 1 and most["all"] <= THREADS


async def test_a_caller_waits_for_no_second_function_of_another() -> None:
    work, done = WorkThreads(LoopTurns()), list[str]()
    last = threading.Event()
    tasks = [asyncio.create_task(work.run("hog", 100_000, last.wait, 60)) for _ in range(5)]
    await asyncio.sleep(0)
    for name, size in (("long", 3_000), ("longer", 4_000), ("short", 2_001)):
        tasks.append(asyncio.create_task(work.run("polite", size, done.append, name)))
    await asyncio.gather(*tasks[5:])
    assert done == ["long", "short", "longer"]  # the first began before the others came
    last.set()
    await asyncio.gather(*tasks)


async def test_callers_that_go_at_any_moment_leave_no_slot_taken() -> None:
    work = WorkThreads(LoopTurns())
    for pause in (0.0, 0.0001, 0.001) * 30:
        task = asyncio.create_task(work.run("a", 1, time.sleep, 0.0005))
        await asyncio.sleep(0)
        await asyncio.sleep(pause)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert await work.run("a", 1, len, "abc") == 3


@pytest.fixture
def rest(short: bool, monkeypatch: pytest.MonkeyPatch) -> float:
    """Without short work a busy machine delays what follows by less than this rest."""
    rest = 1.0 if short else 1_000.0
    monkeypatch.setattr(work_threads, "REST", rest)
    return rest


@pytest.mark.parametrize("short", [False, True])
async def test_long_work_rests_beside_short_work(short: bool, rest: float) -> None:
    turns, times = LoopTurns(), list[float]()
    work = WorkThreads(turns)
    began, may_end = threading.Event(), threading.Event()

    def long() -> None:
        times.append(time.monotonic())
        began.set()
        may_end.wait(60)
        time.sleep(0.05)
        times.append(time.monotonic())

    tasks = [asyncio.create_task(work.run("a", 1, long)) for _ in range(2)]
    await asyncio.to_thread(began.wait, 60)
    if short:
        turns.note_short()
    may_end.set()
    await asyncio.gather(*tasks)
    assert (times[2] - times[1] >= rest * (times[1] - times[0])) is short


@pytest.mark.parametrize("short", [False, True])
async def test_documents_leave_half_of_the_event_loop_to_short_texts(
    short: bool, rest: float
) -> None:
    """Each works for some milliseconds at a time, as on a long sentence: all rest as long."""
    turns, parts = LoopTurns(), list[tuple[float, float]]()

    async def document() -> None:
        for _ in range(3):
            await turns.next()
            began = time.monotonic()
            time.sleep(0.004)  # noqa: ASYNC251  it keeps the event loop
            parts.append((began, time.monotonic()))
            turns.add(parts[-1][1] - began)
            if short:
                turns.note_short()

    await asyncio.gather(*[document() for _ in range(3)])
    rests = [after[0] - before[1] for before, after in pairwise(parts)]
    least = [rest * (end - began) for began, end in parts[:-1]]
    assert all(a >= 0.99 * b for a, b in zip(rests, least, strict=True)) is short


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


def iterations(
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
    done = iterations(callers)
    assert Counter(caller for _, caller in done) == Counter(callers)
    per_iteration = Counter(iteration for iteration, _ in done)
    assert max(per_iteration.values()) <= FEWEST
    assert max(per_iteration) <= 100 // FEWEST + 3, "iterations passed without work"


def test_no_caller_waits_behind_all_requests_of_another():
    done = [caller for _, caller in iterations(["hog"] * 200 + ["polite"])]
    assert done.index("polite") < 3 * FEWEST


def test_a_cancelled_request_takes_nobodys_turn():
    cancelled = frozenset(range(50, 90))
    assert len(iterations(["a"] * 100, cancelled)) == 60


@pytest.mark.parametrize("other", [1.0, 10.0, 40.0, 100.0, 1_000.0])
def test_rejections_do_not_take_the_whole_time_of_the_loop(other):
    per_iteration = Counter(iteration for iteration, _ in iterations(["a"] * 5_000, other=other))
    fewest = min(list(per_iteration.values())[8:-1])
    assert fewest >= min(MOST / 2, 0.4 * other)
    assert max(per_iteration.values()) <= max(FEWEST, min(MOST, 4 * other))
