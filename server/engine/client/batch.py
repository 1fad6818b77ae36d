"""Batch: many jobs of one caller in one task, which wakes once for all answers that have
arrived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from server.engine.client.engine_client import EngineClient, InFlight
from server.engine.client.status import WorkerFailure, server_error
from server.engine.ipc.messages import JobResult
from server.errors import AttentiveError
from server.work_threads import LoopTurns

Result = TypeVar("Result")
MOST = 512
"""Jobs of a batch in progress at the same time: enough for every slot of a GPU."""
BURST = 32
"""Tasks that begin before the event loop serves other requests."""
SLICE_SECONDS = 0.001
"""Work for one request after which the event loop serves others."""


class Slices:
    """Divides the work for one request on the event loop; the slices of documents take `turns`."""

    def __init__(self, turns: LoopTurns | None = None) -> None:
        self._turns, self._began = turns, time.perf_counter()

    async def next(self) -> None:
        """Ends a step, and the slice after SLICE_SECONDS."""
        if time.perf_counter() >= self._began + SLICE_SECONDS:
            self.end()
            await self.begin()

    async def begin(self) -> None:
        """Begins a slice after other requests were served."""
        await (self._turns.next() if self._turns is not None else asyncio.sleep(0))
        self._began = time.perf_counter()

    def end(self) -> None:
        if self._turns is not None:
            self._turns.add(time.perf_counter() - self._began)


class Batch(Generic[Result]):
    """Computes `count` results by number: `send` sends a job, or returns None where none is needed,
    and `finish` makes the result of its answer. `orders` are groups of numbers: `report` gets their
    results in order, with the group and the place in it."""

    def __init__(
        self,
        engine: EngineClient,
        count: int,
        send: Callable[[int], InFlight | None],
        finish: Callable[[int, JobResult | None], Coroutine[Any, Any, Result]],
        report: Callable[[int, int, Result], None] | None = None,
        orders: Sequence[Sequence[int]] = (),
    ) -> None:
        self._results: list[Result | None] = [None] * count
        self._engine, self._send, self._finish, self._report = engine, send, finish, report
        self._orders, self._reported = orders, [0] * len(orders)
        self._begun = self._done = 0
        self._sent: dict[int, InFlight] = {}
        self._tasks: dict[int, asyncio.Task[Result]] = {}
        self._errors: dict[int, AttentiveError] = {}
        self._arrived: list[tuple[int, asyncio.Future[Any]]] = []
        self._news = asyncio.Event()
        self._turns: LoopTurns | None = None

    async def run(self, turns: LoopTurns | None = None) -> list[Result]:
        """Returns all results; those of a document take `turns`. Raises the errors of
        `EngineClient.answer`, with a report after the results before."""
        slices, self._turns = Slices(turns), turns
        try:
            while True:
                await self._fill(slices)
                await self._tell(slices)
                slices.end()
                if self._errors and None not in self._results[: (first := min(self._errors))]:
                    raise self._errors[first]
                if self._done == len(self._results):
                    return [result for result in self._results if result is not None]
                arrived = await self._arrivals()
                await slices.begin()
                for number, done in arrived:
                    await slices.next()
                    self._receive(number, done)
        finally:
            for item in self._sent.values():
                self._engine.leave(item)
            for task in self._tasks.values():  # after its first step, as its coroutine has begun
                asyncio.get_running_loop().call_soon(task.cancel)
            if self._tasks:
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _fill(self, slices: Slices) -> None:
        while self._begun < len(self._results) and len(self._sent) + len(self._tasks) < MOST:
            number = self._begun
            self._begun += 1
            if (item := self._send(number)) is None:
                self._go_on(number, None)
            else:
                self._sent[number] = item
                item.future.add_done_callback(partial(self._arrive, number))
            await slices.next()

    async def _tell(self, slices: Slices) -> None:
        for group, order in enumerate(self._orders):
            for place in range(self._reported[group], len(order)):
                if self._report is None or (result := self._results[order[place]]) is None:
                    break
                self._report(group, place, result)
                self._reported[group] += 1
                await slices.next()

    def _arrive(self, number: int, done: asyncio.Future[Any]) -> None:
        self._arrived.append((number, done))
        self._news.set()

    async def _arrivals(self) -> list[tuple[int, asyncio.Future[Any]]]:
        await self._news.wait()
        self._news.clear()
        arrived, self._arrived = self._arrived, []
        return arrived

    def _receive(self, number: int, done: asyncio.Future[Any]) -> None:
        try:
            if self._tasks.pop(number, None) is not None:
                self._keep(number, done.result())
            else:
                del self._sent[number]
                self._go_on(number, done.result())
        except (AttentiveError, WorkerFailure) as error:
            known = server_error(error) if isinstance(error, WorkerFailure) else error
            if self._report is None:
                raise known from error
            self._errors[number] = known

    def _go_on(self, number: int, answer: JobResult | None) -> None:
        """Runs `finish` until it waits: most calls need no task."""
        coroutine = self._finish(number, answer)
        try:
            awaited = coroutine.send(None)
        except StopIteration as end:
            self._keep(number, end.value)
            return
        begun = _Begun(coroutine, awaited, self._turns)
        task = self._tasks[number] = asyncio.create_task(_rest(begun))
        task.add_done_callback(partial(self._arrive, number))

    def _keep(self, number: int, result: Result) -> None:
        self._results[number] = result
        self._done += 1


class _Begun(Generic[Result]):
    """Continues a coroutine that waits for `awaited`. Its steps count as work of `turns`."""

    def __init__(
        self, coroutine: Coroutine[Any, Any, Result], awaited: object, turns: LoopTurns | None
    ) -> None:
        self._coroutine, self._awaited, self._turns = coroutine, awaited, turns

    def __await__(self) -> Generator[object, Any, Result]:
        coroutine, awaited, turns = self._coroutine, self._awaited, self._turns
        try:
            while True:
                try:
                    yield awaited
                except BaseException as error:  # noqa: BLE001  the coroutine gets it, as a cancellation
                    awaited = coroutine.throw(error)
                else:
                    began = time.perf_counter()
                    try:
                        awaited = coroutine.send(None)
                    finally:
                        if turns is not None:
                            turns.add(time.perf_counter() - began)
        except StopIteration as end:
            result: Result = end.value
            return result


async def _rest(begun: _Begun[Result]) -> Result:
    return await begun


async def gather_or_cancel(coroutines: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Returns all results in order. The first exception, or a cancellation, ends the others."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    tasks: list[asyncio.Task[Result]] = []
    waiting = iter(coroutines)
    try:
        while burst := list(islice(waiting, BURST)):
            tasks += map(asyncio.create_task, burst)
            if len(burst) == BURST:
                await asyncio.sleep(0)
        return await asyncio.gather(*tasks)
    finally:
        for coroutine in waiting:
            coroutine.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
