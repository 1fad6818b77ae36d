"""Room for documents, shared between callers: places for documents in progress, and turns to use the reader or the
translator."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from server.access.retry_after import RetryReservations
from server.errors import Overloaded

FIRST_INTERVAL = 5.0
"""Assumed seconds between two finished documents before any has finished."""
AVERAGED = 8
"""Number of recent intervals in the average."""
RESERVE = 4
"""The places for callers that return after their Retry-After are the places divided by this, in addition to them."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The place of one document of `size` bytes."""

    caller: str
    size: int


class Places:
    """At most `limit` documents in progress, of `limit_bytes` in total.

    A caller may hold no more than what is free (the dynamic thresholds of Choudhury and Hahne, 1998): one caller alone
    gets half of the places, and there is always room for another caller. A document of any size is accepted while there
    is no other.
    """

    def __init__(self, limit: int, limit_bytes: int, clock: Callable[[], float] = monotonic) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._places: dict[Place, None] = {}
        self._reservations = RetryReservations()
        self._interval = FIRST_INTERVAL
        self._changed_at = 0.0  # the last time that a place was released, or that the first one was taken

    def __len__(self) -> int:
        return len(self._places)

    def take(self, caller: str, size: int, key: Hashable = None) -> Place:
        """Takes a place. `key` identifies the document when its caller tries again. Raises Overloaded with the time
        until there is room for it."""
        now = self._clock()
        missing = self._missing(caller, size, self._reservations.is_due((caller, key), now))
        if missing > 0:
            interval = max(self._interval, now - self._changed_at)
            wait = self._reservations.reserve((caller, key), now, missing * interval, interval)
            raise Overloaded("Too many documents are in progress; try again later.", wait)
        self._reservations.release((caller, key))
        if not self._places:
            self._changed_at = now
        place = Place(caller, size)
        self._places[place] = None
        return place

    def release(self, place: Place) -> None:
        """Gives a place back. Releasing it again has no effect."""
        if place in self._places:
            del self._places[place]
            now = self._clock()
            self._interval += (now - self._changed_at - self._interval) / AVERAGED
            self._changed_at = now

    def _missing(self, caller: str, size: int, returning: bool) -> int:
        """Returns the number of documents that must finish before the caller gets a place; 0 if there is room."""
        if not self._places:
            return 0
        held = [place.size for place in self._places if place.caller == caller]
        extra = 1 + 1 / RESERVE if returning else 1
        free = math.ceil(self._limit * extra) - len(self._places)
        free_bytes = self._limit_bytes * extra - sum(place.size for place in self._places)
        # A caller's own document that finishes counts twice: the caller holds one less, and one more is free.
        missing = math.ceil((len(held) + 1 - free) / 2)
        return max(missing, int(sum(held) + size > free_bytes))


class FairSlots:
    """At most `limit` holders at a time. A free slot goes to the waiting caller that holds the fewest slots, and among
    these to the one that was served the longest time ago. Belongs to one event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
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
        while self._waiting and self._held.total() < self._limit:
            granted = min(self._waiting, key=self._priority)
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
