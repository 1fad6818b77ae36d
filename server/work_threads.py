"""Turns between callers and between documents, on the event loop and in threads beside it."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

Result = TypeVar("Result")
THREADS = 2
"""Functions that run at the same time, of two callers."""
REST = 1.0
"""After t seconds of long work it rests for REST * t, if short texts come meanwhile: they share the
interpreter and the processors with it, and take longer beside it."""
RECENT = 0.1
"""For so many seconds after a short text another one is expected."""
FEWEST, MOST = 8, 512
"""Requests whose work begins in one iteration of the event loop; each takes it about a
millisecond."""
SHARE = 2 / 3
"""Their number doubles, up to MOST, while their work takes less than this share of the loop's time
and others wait: rejections would take all of it."""


class FairSlots:
    """At most `limit` holders at a time, and at most `share` of one caller. A free slot goes to the
    waiting caller that holds the fewest slots, and among these to the one that was served the
    longest time ago. Belongs to one event loop."""

    def __init__(self, limit: int, share: int | None = None) -> None:
        self._limit = limit
        self._share = share or limit
        self._held: Counter[str] = Counter()
        self._waiting: dict[asyncio.Future[None], tuple[str, int]] = {}
        self._served: dict[str, int] = {}
        self._turn = 0

    @asynccontextmanager
    async def hold(self, caller: str, order: int = 0) -> AsyncIterator[None]:
        """Waits for a slot and holds it while the block runs. The waiter with the lowest `order` of
        its caller is first."""
        granted = asyncio.get_running_loop().create_future()
        self._waiting[granted] = (caller, order)
        self._grant()
        try:
            await granted
            yield
        finally:
            if self._waiting.pop(granted, None) is None:  # it was granted
                self._held[caller] -= 1
                self._grant()

    def _grant(self) -> None:
        while self._held.total() < self._limit:
            within_share = [
                waiter
                for waiter, (caller, _) in self._waiting.items()
                if self._held[caller] < self._share
            ]
            if not within_share:
                break
            granted = min(within_share, key=self._priority)
            caller, _ = self._waiting.pop(granted)
            self._held[caller] += 1
            self._turn += 1
            self._served[caller] = self._turn
            if not granted.done():
                granted.set_result(None)
        if not self._waiting:
            self._held += Counter()  # removes the callers that hold none
            self._served = {
                caller: turn for caller, turn in self._served.items() if caller in self._held
            }

    def _priority(self, waiter: asyncio.Future[None]) -> tuple[int, int, int]:
        caller, order = self._waiting[waiter]
        return self._held[caller], self._served.get(caller, 0), order


class Turns:
    """Lets few requests go on in each iteration of the event loop, so that others are accepted,
    read and rejected meanwhile. Callers take turns. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limit = self._left = FEWEST
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._running = False
        self._began = self._ended = 0.0

    async def next(self, caller: str) -> None:
        """Returns when a request of the caller may go on; at once where few came in this
        iteration."""
        loop = asyncio.get_running_loop()
        if not self._running:
            self._running = True
            loop.call_soon(self._iterate)
        if self._left:
            self._left -= 1
            return
        turn = loop.create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        await turn

    def _begin(self) -> None:
        self._began = self._clock()

    def _iterate(self) -> None:
        """Is called after the work of the requests whose turn it was in this iteration."""
        now, loop = self._clock(), asyncio.get_running_loop()
        little = now - self._began < SHARE * (now - self._ended)
        self._limit = (
            min(MOST, 2 * self._limit)
            if little and self._waiting
            else max(FEWEST, self._limit // 2)
        )
        self._ended, self._left = now, self._limit
        if self._waiting:
            loop.call_soon(self._begin)
        while self._left and self._waiting:
            caller = next(iter(self._waiting))
            turns = self._waiting.pop(caller)
            turn = turns.popleft()
            if turns:
                self._waiting[caller] = turns
            if not turn.done():  # it was not cancelled
                turn.set_result(None)
                self._left -= 1
        self._running = self._left < self._limit
        if self._running:
            loop.call_soon(self._iterate)


class LoopTurns:
    """Lets the work for documents go on on the event loop, one after the other, and rest after each
    part of it while short texts come. Belongs to one event loop."""

    def __init__(self) -> None:
        self._lock, self._worked, self.short = asyncio.Lock(), 0.0, -math.inf

    def note_short(self) -> None:
        """Notes that a short text is translated now."""
        self.short = time.monotonic()

    def add(self, seconds: float) -> None:
        """Adds seconds that the event loop has worked for a document."""
        self._worked += seconds

    async def next(self) -> None:
        """Returns when the work for a document may go on."""
        async with self._lock:
            worked, self._worked = self._worked, 0.0
            expected = time.monotonic() - self.short < RECENT
            await asyncio.sleep(REST * worked if expected else 0.0)


class WorkThreads:
    """Runs one function of a caller at a time in a thread, and at most THREADS in all, so that the
    event loop shares the interpreter with few. Callers take turns. The threads are its own, so no
    function waits behind the reads of disks, which asyncio.to_thread runs. `turns` know of short
    texts. Belongs to one event loop."""

    def __init__(self, turns: LoopTurns) -> None:
        self._slots, self._turns = FairSlots(THREADS, 1), turns
        self._pool = ThreadPoolExecutor(THREADS, "work")

    async def run(
        self, caller: str, size: int, function: Callable[..., Result], *arguments: object
    ) -> Result:
        """Returns the result of the function or raises its exception. That with the least `size` of
        a caller is first. If the awaiting task is cancelled, a function that has begun runs to its
        end and keeps its slot until then: a thread cannot be ended, so a function's time must be
        bounded."""
        async with AsyncExitStack() as slot:
            await slot.enter_async_context(self._slots.hold(caller, size))
            loop, began = asyncio.get_running_loop(), time.monotonic()
            running = loop.run_in_executor(self._pool, function, *arguments)
            held = slot.pop_all()

            def rest(_: object) -> None:
                seconds = REST * (time.monotonic() - began) if self._turns.short > began else 0
                loop.call_later(seconds, lambda: loop.create_task(held.aclose()))

            running.add_done_callback(rest)
            return await asyncio.shield(running)
