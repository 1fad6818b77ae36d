"""The bounded queue: accepts requests by their amount of work and estimates when there will be room for a rejected
one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from server.access.retry_after import RetryReservations
from server.errors import Overloaded

MEASURED_SECONDS = 30.0
"""Time constant of the measured speed."""
MINIMUM_BOUND = 4_000
"""Units of short requests that may always wait, because a server with little load has not shown its full speed."""
NEW_REQUESTS_SHARE = 0.6
"""Share of the bound for new requests while there are reservations; the rest is for retries."""
DOCUMENTS_SHARE = 0.75
"""Share of the limit that documents may fill, so that short requests are still admitted."""


class Admission:
    """Admits at most `limit` units of work that are not finished yet.

    Short requests are admitted up to the work that the server does in `seconds` (None: no such bound). A single request
    over the bounds is admitted while the queue is empty, so that it can be served at all.

    The speed is measured over about the last 30 seconds, weighted by the queue's length. Retry-After is estimated from
    it. A rejected request with a `key` gets a reservation for the time of its Retry-After.
    """

    def __init__(self, limit: int, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.accepted = 0
        """Units of work accepted and not yet finished."""
        self.requests = 0
        """Requests accepted and not yet finished."""
        self._short = 0  # units of `accepted` that belong to short requests
        self._seconds = seconds
        self._clock = clock
        # Finished units and the busy seconds they took. Both are weighted by `accepted` at the time.
        self._done = 0.0
        self._busy = 0.0
        self._changed_at = 0.0
        self._reservations = RetryReservations()

    @contextmanager
    def admit(
        self, cost: int, deadline: float | None = None, *, document: bool = False, key: Hashable = None
    ) -> Iterator[None]:
        """Occupies `cost` units while the block runs. `deadline` is on the same clock as the class. A `document` waits
        behind all other work, a short request behind short requests only.

        Raises Overloaded at once where there is no room, or where the queue would take longer than the deadline allows.
        """
        self.check(cost, document=document, key=key)
        wait = self.seconds(self.accepted if document else self._short)
        if deadline is not None and wait is not None and self._clock() + wait > deadline:
            raise Overloaded(
                "The queue is longer than the time this request allows.", max(1, math.ceil(wait / 2)), "deadline"
            )
        self._reservations.release(key)
        self._change(cost, document, 1)
        succeeded = False
        try:
            yield
            succeeded = True
        finally:
            level = self.accepted
            self._change(-cost, document, -1)
            if succeeded:
                self._done += cost * level

    def check(self, cost: int, *, document: bool = False, key: Hashable = None) -> None:
        """Raises Overloaded where there is no room for `cost` units now. A reservation of `key` counts as room."""
        now = self._clock()
        reserved = self._reservations.is_due(key, now)
        excess = self._excess(cost, document, reserved)
        if excess <= 0:
            return
        wait = self.seconds(math.ceil(excess)) or 0.0
        if key is None:
            retry_after = max(1, math.ceil(wait))
        else:
            retry_after = self._reservations.reserve(key, now, wait, self.seconds(cost) or 0.0)
        raise Overloaded("The server is busy; try again later.", retry_after)

    def seconds(self, cost: int) -> float | None:
        """Returns the time that `cost` units take at the measured speed, or None before the first measurement."""
        return cost * self._busy / self._done if self._done > 0 else None

    def _excess(self, cost: int, document: bool, reserved: bool) -> float:
        """Returns the units that must finish before `cost` units can be admitted; not positive where there is room."""
        over = self.accepted + cost - self.limit * (DOCUMENTS_SHARE if document and not reserved else 1.0)
        if not self.accepted:
            return 0.0
        if document or not self._short:
            return over
        share = NEW_REQUESTS_SHARE if len(self._reservations) and not reserved else 1.0
        return max(over, self._short + cost - share * self._bound())

    def _bound(self) -> float:
        """Returns the units of short requests that may be in the queue at once."""
        if self._seconds is None or not self._done:
            return self.limit
        return min(self.limit, max(MINIMUM_BOUND, self._seconds * self._done / self._busy))

    def _change(self, cost: int, document: bool, requests: int) -> None:
        """Adds to the counters and lets the measurement of the speed decay by the time since the last change."""
        now = self._clock()
        if self.accepted:
            elapsed = now - self._changed_at
            decay = math.exp(-elapsed / MEASURED_SECONDS)
            self._busy = self._busy * decay + elapsed * self.accepted
            self._done *= decay
        self._changed_at = now
        self.accepted += cost
        self._short += 0 if document else cost
        self.requests += requests
