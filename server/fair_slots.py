"""Turns to use something that few can use at the same time, shared between the callers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """At most `limit` holders at a time, and at most `share` of one caller. A free slot goes to the waiting caller that
    holds the fewest slots, and among these to the one that was served the longest time ago. Belongs to one event loop."""

    def __init__(self, limit: int, share: int | None = None) -> None:
        self._limit = limit
        self._share = share or limit
        self._held: Counter[str] = Counter()
        self._waiting: dict[asyncio.Future[None], tuple[str, int]] = {}
        self._served: dict[str, int] = {}
        self._turn = 0

    @asynccontextmanager
    async def hold(self, caller: str, order: int) -> AsyncIterator[None]:
        """Waits for a slot and holds it while the block runs. The waiter with the lowest `order` of its caller is first."""
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
            within_share = [waiter for waiter, (caller, _) in self._waiting.items() if self._held[caller] < self._share]
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
            self._served = {caller: turn for caller, turn in self._served.items() if caller in self._held}

    def _priority(self, waiter: asyncio.Future[None]) -> tuple[int, int, int]:
        caller, order = self._waiting[waiter]
        return self._held[caller], self._served.get(caller, 0), order
