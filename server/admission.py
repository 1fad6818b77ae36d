"""A bounded queue counted in work, not in requests, that can tell truthfully when there will be room again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from server.errors import Overloaded

MEMORY_SECONDS = 30.0
LONGEST_RETRY_SECONDS = 120


class Admission:
    """At most `limit` units of work accepted and not yet answered. A single request that is larger than the limit is
    let in when nothing else is there, so that it can be served at all.

    The speed of the server is measured over the busy time of about the last 30 seconds; Retry-After follows from it.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.accepted = 0
        """Units of work accepted and not yet answered."""
        self.requests = 0
        self._clock = clock
        self._done = 0.0  # units finished and busy seconds that took, both fading with MEMORY_SECONDS
        self._busy = 0.0
        self._since = 0.0

    @contextmanager
    def admit(self, cost: int, deadline: float | None = None) -> Iterator[None]:
        """Holds a place for `cost` units while the block runs. `deadline` is on the same clock.

        Raises Overloaded at once when there is no room, or when what is queued would take longer than the deadline
        allows.
        """
        if not self.has_room(cost):
            raise Overloaded("The server is busy; try again later.", self.retry_after(cost))
        wait = self.seconds(self.accepted)
        if deadline is not None and wait is not None and self._clock() + wait > deadline:
            raise Overloaded(
                "The queue is longer than the time this request allows.", self.retry_after(cost), "deadline"
            )
        self._advance()
        self.accepted += cost
        self.requests += 1
        done = False
        try:
            yield
            done = True
        finally:
            self._advance()
            self.accepted -= cost
            self.requests -= 1
            if done:
                self._done += cost

    def has_room(self, cost: int = 1) -> bool:
        return self.accepted == 0 or self.accepted + cost <= self.limit

    def seconds(self, cost: int) -> float | None:
        """How long the server takes for `cost` units at its present speed; None while nothing was measured."""
        return cost * self._busy / self._done if self._done > 0 else None

    def retry_after(self, cost: int) -> int:
        """Whole seconds until there should be room for `cost` units."""
        seconds = self.seconds(min(self.accepted, max(1, self.accepted + cost - self.limit)))
        return min(LONGEST_RETRY_SECONDS, max(1, math.ceil(seconds if seconds is not None else 1)))

    def _advance(self) -> None:
        now = self._clock()
        if self.accepted:
            elapsed = now - self._since
            fade = math.exp(-elapsed / MEMORY_SECONDS)
            self._busy = self._busy * fade + elapsed
            self._done *= fade
        self._since = now
