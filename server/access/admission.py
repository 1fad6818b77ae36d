"""A bounded queue counted in work, not in requests, that can tell truthfully when there will be room again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from server.access.retry_after import Promises
from server.errors import Overloaded

MEMORY_SECONDS = 30.0
LEAST_QUEUE = 4_000
"""So much work may wait however slow the server seems: a server that had little to do has not shown its speed."""
NEWCOMERS = 0.6
"""Share of the queue that newcomers may fill while others were told to come back; the rest is for those."""
DOCUMENTS = 0.75
"""Share of all room that documents may fill: they run in the gaps, and short requests must still get in."""


class Admission:
    """At most `limit` units of work accepted and not yet answered, and of short requests about as much as the server
    does in `seconds` (None: no such bound). A single request that is larger than that is let in when nothing else is
    there, so that it can be served at all.

    The speed of the server is measured over about the last 30 seconds, most of all where much was waiting; Retry-After
    follows from it. Whoever is refused and comes back when told to finds a place kept, by the `key` of the request.
    """

    def __init__(self, limit: int, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.accepted = 0
        """Units of work accepted and not yet answered."""
        self.requests = 0
        self._short = 0  # the part of `accepted` that is no document
        self._seconds = seconds
        self._clock = clock
        self._done = 0.0  # units finished and busy seconds that took, both weighted by what was accepted then
        self._busy = 0.0
        self._since = 0.0
        self._promises = Promises()

    @contextmanager
    def admit(
        self, cost: int, deadline: float | None = None, *, document: bool = False, key: Hashable = None
    ) -> Iterator[None]:
        """Holds a place for `cost` units while the block runs. `deadline` is on the same clock. A `document` waits
        behind everybody, a short request behind short ones only.

        Raises Overloaded at once when there is no room, or when what is queued would take longer than the deadline
        allows.
        """
        self.check(cost, document=document, key=key)
        wait = self.seconds(self.accepted if document else self._short)
        if deadline is not None and wait is not None and self._clock() + wait > deadline:
            raise Overloaded(
                "The queue is longer than the time this request allows.", max(1, math.ceil(wait / 2)), "deadline"
            )
        self._promises.keep(key)
        self._change(cost, document, 1)
        done = False
        try:
            yield
            done = True
        finally:
            level = self.accepted
            self._change(-cost, document, -1)
            if done:
                self._done += cost * level

    def check(self, cost: int, *, document: bool = False, key: Hashable = None) -> None:
        """Raises Overloaded where there is no room for so much now; a place is kept for who comes back in time."""
        now = self._clock()
        promised = self._promises.due(key, now)
        excess = self._excess(cost, document, promised)
        if excess <= 0:
            return
        wait = self.seconds(math.ceil(excess)) or 0.0
        if key is None:
            retry_after = max(1, math.ceil(wait))
        else:
            retry_after = self._promises.promise(key, now, wait, self.seconds(cost) or 0.0)
        raise Overloaded("The server is busy; try again later.", retry_after)

    def seconds(self, cost: int) -> float | None:
        """How long the server takes for `cost` units at its present speed; None while nothing was measured."""
        return cost * self._busy / self._done if self._done > 0 else None

    def _excess(self, cost: int, document: bool, promised: bool) -> float:
        """Units that have to be done before there is room for so much; not positive where there is."""
        over = self.accepted + cost - self.limit * (DOCUMENTS if document and not promised else 1.0)
        if not self.accepted:
            return 0.0
        if document or not self._short:
            return over
        share = NEWCOMERS if len(self._promises) and not promised else 1.0
        return max(over, self._short + cost - share * self._bound())

    def _bound(self) -> float:
        """Units of short requests that may be there at once."""
        if self._seconds is None or not self._done:
            return self.limit
        return min(self.limit, max(LEAST_QUEUE, self._seconds * self._done / self._busy))

    def _change(self, cost: int, document: bool, requests: int) -> None:
        now = self._clock()
        if self.accepted:
            elapsed = now - self._since
            fade = math.exp(-elapsed / MEMORY_SECONDS)
            self._busy = self._busy * fade + elapsed * self.accepted
            self._done *= fade
        self._since = now
        self.accepted += cost
        self._short += 0 if document else cost
        self.requests += requests
