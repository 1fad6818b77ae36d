from __future__ import annotations

import asyncio
import threading
import time

import pytest

from server.work_thread import WorkThread


async def test_it_returns_results_and_raises_exceptions() -> None:
    work = WorkThread()
    assert await work.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await work.run(divmod, 7, 0)


async def test_a_function_ends_when_its_caller_is_cancelled() -> None:
    work, started, ended = WorkThread(), threading.Event(), threading.Event()

    def endless() -> None:
        started.set()
        try:
            while True:
                time.sleep(0)
        finally:
            ended.set()

    first = asyncio.create_task(work.run(endless))
    waiting = [asyncio.create_task(work.run(threading.get_ident)) for _ in range(2)]
    await asyncio.to_thread(started.wait, 60)
    waiting[0].cancel()  # while it waits
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert ended.is_set()
    assert await waiting[1] != threading.get_ident()


async def test_one_function_runs_at_a_time() -> None:
    work, running, most = WorkThread(), [0], [0]

    def step() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.001)
        running[0] -= 1

    await asyncio.gather(*[work.run(step) for _ in range(10)])
    assert most == [1]
