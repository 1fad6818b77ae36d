"""Divides the event loop between requests that were admitted and what has to be accepted, read and
rejected meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

FEWEST, MOST = 8, 512
"""Requests whose work begins in one iteration of the event loop; each takes it about a
millisecond."""
SHARE = 2 / 3
"""Their number doubles, up to MOST, while their work takes less than this share of the loop's time
and others wait: rejections would take all of it."""


class Turns:
    """Lets few requests go on in each iteration of the event loop. The callers of the others take
    turns: nobody waits behind all requests of another one. Belongs to one event loop."""

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
