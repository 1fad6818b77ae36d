"""Reserves the times at which rejected requests were invited to retry, so that a Retry-After is reliable."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable

from server.errors import LONGEST_RETRY_AFTER

HELD_SECONDS = 10.0
"""How long a reservation outlasts its Retry-After."""
TOLERANCE_SECONDS = 0.1
"""A retry that is early by no more than this is accepted, because the clocks of client and server differ."""
RESERVATIONS_LIMIT = 50_000


class RetryReservations:
    """Reservations by request key. All times are seconds on the caller's clock.

    Each reservation is due when the work reserved before it can be done, so that rejected clients do not retry all at
    once.
    """

    def __init__(self) -> None:
        self._reservations: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # key -> due, expires
        self._latest_due = 0.0

    def __len__(self) -> int:
        return len(self._reservations)

    def is_due(self, key: Hashable, now: float) -> bool:
        """Whether the request holds a reservation for this time."""
        while self._reservations and next(iter(self._reservations.values()))[1] < now:
            self._reservations.popitem(last=False)
        reservation = self._reservations.get(key)
        return reservation is not None and reservation[0] - TOLERANCE_SECONDS <= now <= reservation[1]

    def reserve(self, key: Hashable, now: float, wait: float, work: float) -> int:
        """Returns the whole seconds after which `key` will be admitted.

        `wait` is the estimated time until there is any room, `work` the time that the request itself takes. A key that
        already holds a later reservation keeps it.
        """
        reservation = self._reservations.pop(key, None)
        if reservation is not None and now < reservation[0]:
            due = reservation[0]
        else:
            due = self._latest_due = min(now + LONGEST_RETRY_AFTER, max(now + wait, self._latest_due + work))
        seconds = max(1, math.ceil(due - now))
        self._reservations[key] = (due, now + seconds + HELD_SECONDS)
        if len(self._reservations) > RESERVATIONS_LIMIT:
            self._reservations.popitem(last=False)
        return seconds

    def release(self, key: Hashable) -> None:
        """Removes the reservation of a request that was admitted."""
        self._reservations.pop(key, None)
