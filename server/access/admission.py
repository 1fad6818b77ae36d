"""The bounded queue: accepts requests by their amount of work, with a share per caller, and estimates when there will
be room for a rejected one."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from types import TracebackType

from server.access.measured_speed import MeasuredSpeed
from server.access.retry_after import RetryReservations
from server.errors import Overloaded

DOCUMENTS_SHARE = 0.75
"""Share of the limit that documents may fill. The rest is a reserve for short requests."""
CALLER_SHARE = 3.0
"""A caller may hold this many times the room that stays free: alone three quarters of the room, two callers three
sevenths each. So there is always room for another caller (dynamic thresholds, Choudhury and Hahne 1998)."""
NEW_REQUESTS_SHARE = 0.9
"""Part of the room, and of a caller's share, for new requests while there are reservations; the rest is for retries."""
MINIMUM_BOUND = 4_000
"""Units of short requests that may always wait, because a server with little load has not shown its full speed."""


@dataclass(slots=True)
class RequestClass:
    """The accepted requests of one kind: short requests, or documents."""

    units: int = 0
    """Units of work accepted and not yet finished."""
    callers: Counter[str | None] = field(default_factory=Counter)
    """The same by caller; a caller without work is left out."""
    weights: dict[str | None, float] = field(default_factory=dict)
    """The weights of the same callers."""
    total_weight: float = 0.0
    """Their sum."""
    speed: MeasuredSpeed = field(default_factory=MeasuredSpeed)
    reservations: RetryReservations = field(default_factory=RetryReservations)
    busy_since: float = 0.0
    """When the time with work was last counted."""
    busy: float = 0.0
    """Seconds with work since the last sample of the speed."""

    def add(self, caller: str | None, weight: float, cost: int, now: float) -> None:
        """Adds an accepted request of a caller."""
        self.total_weight += weight - self.weights.get(caller, 0.0)
        self.weights[caller] = weight
        self.change(caller, cost, now)

    def change(self, caller: str | None, cost: int, now: float) -> None:
        """Adds to the units of a caller and counts the time with work."""
        if self.units:
            self.busy += now - self.busy_since
        self.busy_since = now
        self.units += cost
        self.callers[caller] += cost
        if self.callers[caller] <= 0:
            del self.callers[caller]
            self.total_weight -= self.weights.pop(caller, 0.0)

    def ahead(self, caller: str | None) -> float:
        """Returns the units that are served before the next request of a caller, where callers get shares by weight."""
        if caller is None:
            return self.units
        if caller not in self.callers:
            return 0
        return min(self.units, self.callers[caller] * self.total_weight / self.weights[caller])


class Place:
    """The room of one accepted request. `leave` gives it back, once; `with` does so at the end of the block, which
    succeeded if it raised nothing."""

    __slots__ = ("_admission", "_caller", "_class", "_cost", "_entered", "_finished_before", "_left")

    def __init__(self, admission: Admission, requests: RequestClass, caller: str | None, cost: int, now: float) -> None:
        self._admission, self._class = admission, requests
        self._caller, self._cost = caller, cost
        self._entered, self._finished_before = now, requests.speed.finished
        self._left = False

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(succeeded=kind is None)

    def leave(self, *, succeeded: bool = False) -> None:
        """Gives the room back. Only a request that succeeded counts in the measured speed. Further calls do nothing."""
        if self._left:
            return
        self._left = True
        now = self._admission.leave(self._class, self._caller, self._cost)
        if succeeded:
            self._class.speed.record(self._cost, now - self._entered, self._finished_before, self._class.busy)
            self._class.busy = 0.0


class Admission:
    """Admits about `limit` units of work that are not finished yet; the unit is the user's, such as tokens or bytes.

    Documents fill at most three quarters of the limit. Short requests fill the rest, and at least a quarter, up to the
    work that the server does in `seconds` (None: no such bound). A caller may hold CALLER_SHARE times the room that
    stays free, so one caller cannot fill the queue. A request over these bounds is admitted while no other of its kind
    is in the queue, so that it can be served at all.

    Retry-After is estimated from the measured speed. A rejected request with a `key` gets a reservation for the time of
    its Retry-After.
    """

    def __init__(self, limit: int, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.requests = 0
        """Requests accepted and not yet finished."""
        self._seconds = seconds
        self._clock = clock
        self._short, self._documents = RequestClass(), RequestClass()

    @property
    def accepted(self) -> int:
        """Units of work accepted and not yet finished."""
        return self._short.units + self._documents.units

    def admit(
        self,
        cost: int,
        deadline: float | None = None,
        *,
        caller: str | None = None,
        weight: float = 1.0,
        document: bool = False,
        key: Hashable = None,
    ) -> Place:
        """Occupies `cost` units until the `with` block of the returned place ends, or until its `leave`.

        `caller` is the name of the caller whose share counts; without one, no share does. `weight` multiplies the
        share. `deadline` is on the same clock as the class. A `document` waits behind all other work, a short request
        behind short requests only. Raises Overloaded at once where there is no room, or where the queue would take
        longer than the deadline allows.
        """
        now = self._clock()
        requests = self._documents if document else self._short
        due = requests.reservations.is_due(key, now)
        excess = self._excess(requests, cost, caller, weight, due)
        if excess > 0:
            wait = requests.speed.seconds(excess) or 0.0
            if key is None:
                retry_after = max(1, math.ceil(wait))
            else:
                work = requests.speed.seconds(cost) or 0.0
                retry_after = requests.reservations.reserve(key, now, wait, work)
            raise Overloaded("The server is busy; try again later.", retry_after)
        wait = requests.speed.seconds(requests.ahead(caller)) or 0.0
        if deadline is not None and now + wait > deadline:
            raise Overloaded(
                "The queue is longer than the time this request allows.", max(1, math.ceil(wait / 2)), "deadline"
            )
        requests.reservations.release(key)
        requests.add(caller, weight, cost, now)
        self.requests += 1
        return Place(self, requests, caller, cost, now)

    def leave(self, requests: RequestClass, caller: str | None, cost: int) -> float:
        """Removes a request from the counters and returns the time. For Place only."""
        now = self._clock()
        requests.change(caller, -cost, now)
        self.requests -= 1
        return now

    def _excess(self, requests: RequestClass, cost: int, caller: str | None, weight: float, due: bool) -> float:
        """Returns the units that must finish before `cost` units can be admitted; not positive where there is room."""
        if not requests.units:
            return 0.0
        room = self._room(requests)
        part = NEW_REQUESTS_SHARE if len(requests.reservations) and not due else 1.0
        over = requests.units + cost - part * room
        if caller is None or caller not in requests.callers:
            return over
        # A caller that holds c units needs c <= share * free. Each of them that finishes adds one to the free units.
        share = weight * CALLER_SHARE
        largest = part * share * (room - requests.units + requests.callers[caller]) / (1 + share)
        return max(over, requests.callers[caller] + cost - largest)

    def _room(self, requests: RequestClass) -> float:
        """Returns the units that all requests of a kind may occupy."""
        if requests is self._documents:
            return DOCUMENTS_SHARE * self.limit
        room = max((1 - DOCUMENTS_SHARE) * self.limit, self.limit - self._documents.units)
        bound = requests.speed.units(self._seconds) if self._seconds is not None else None
        if bound is None:
            return room
        return min(room, max(MINIMUM_BOUND, bound))
