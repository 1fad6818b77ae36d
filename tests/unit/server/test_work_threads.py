from __future__ import annotations

import _thread
import asyncio
import threading
import time
from collections import Counter

import pytest

from server.work_threads import THREADS, WorkThreads


async def test_it_returns_results_and_raises_exceptions() -> None:
    work = WorkThreads()
    assert await work.run("a", 1, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await work.run("a", 1, divmod, 7, 0)


async def test_a_function_ends_when_its_caller_is_cancelled() -> None:
    work, started, ended = WorkThreads(), threading.Event(), threading.Event()

    def endless() -> None:
        started.set()
        try:
            while True:
                time.sleep(0)
        finally:
            ended.set()

    first = asyncio.create_task(work.run("a", 1, endless))
    waiting = [asyncio.create_task(work.run("a", 1, threading.get_ident)) for _ in range(2)]
    await asyncio.to_thread(started.wait, 60)
    waiting[0].cancel()  # while it waits
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert ended.is_set()
    assert await waiting[1] != threading.get_ident()


async def test_a_caller_has_one_thread_and_all_callers_have_two() -> None:
    work, running, most = WorkThreads(), Counter[str](), Counter[str]()

    def step(caller: str) -> None:
        running[caller] += 1
        most[caller] = max(most[caller], running[caller])
        most["all"] = max(most["all"], running.total())
        time.sleep(0.001)
        running[caller] -= 1

    await asyncio.gather(*[work.run(caller, 1, step, caller) for caller in "aaaaabbbbbcc"])
    assert max(most["a"], most["b"], most["c"]) == 1 and most["all"] <= THREADS


async def test_a_caller_waits_for_no_second_function_of_another() -> None:
    work, done = WorkThreads(), list[str]()
    last = threading.Event()
    tasks = [asyncio.create_task(work.run("hog", 100_000, last.wait, 60)) for _ in range(5)]
    await asyncio.sleep(0)
    for name, size in (("long", 3_000), ("longer", 4_000), ("short", 2_001)):
        tasks.append(asyncio.create_task(work.run("polite", size, done.append, name)))
    await asyncio.gather(*tasks[5:])
    assert done == ["long", "short", "longer"]  # the first began before the others came
    last.set()
    await asyncio.gather(*tasks)


async def test_a_function_whose_caller_goes_before_it_begins_does_not_run_on() -> None:
    work, before = WorkThreads(), _thread._count()

    def endless() -> None:
        while True:
            time.sleep(0)

    for pause in (0.0, 0.0001, 0.001) * 30:
        task = asyncio.create_task(work.run("a", 1, endless))
        await asyncio.sleep(0)
        await asyncio.sleep(pause)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(60):
        while _thread._count() > before:  # noqa: ASYNC110  threads have no event
            await asyncio.sleep(0.01)
    assert await work.run("a", 1, len, "abc") == 3
