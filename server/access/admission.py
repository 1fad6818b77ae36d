"""The door of the server: accepts work by its amount, with a share per caller, and says when a rejected request may
return."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from server.errors import LONGEST_RETRY_AFTER, Overloaded

DOCUMENTS_SHARE = 0.75
"""Share of the limit that documents may fill. The rest is a reserve for short requests."""
CALLER_SHARE = 3.0
"""A caller may hold this many times the room that stays free: alone three quarters of the room, two callers three
sevenths each. So there is always room for another caller (dynamic thresholds, Choudhury and Hahne 1998)."""
MINIMUM_BOUND = 4_000
"""Units of short requests that may always wait, because a server with little load has not shown its full speed."""
MEASURED_SECONDS = 30.0
"""Time constant of the measured speed, in seconds with work."""
CYCLE_SECONDS = 10.0
TURN_SECONDS = 2.0
"""Every request has a turn of TURN_SECONDS in each CYCLE_SECONDS, given by its key. A rejected one is invited to it."""
OUT_OF_TURN_SHARE = 0.9
"""Part of the room, and of a caller's share, for requests out of their turn, while rejected ones are to return."""


@dataclass(slots=True)
class CallerWork:
    """The accepted work of one caller. The weight is that of its last request."""

    weight: float = 0.0
    units: int = 0


@dataclass(slots=True)
class Queue:
    """The accepted requests of one kind, short requests or documents, and the speed at which they are finished."""

    units: int = 0
    """Units of work accepted and not yet finished."""
    requests: int = 0
    callers: dict[str | None, CallerWork] = field(default_factory=dict)
    """The same by caller; one without work is left out."""
    total_weight: float = 0.0
    """Sum of the weights of these callers."""
    invited_until: float = 0.0
    """The time by which the work of the rejected requests can be done."""
    _measured_until: float = 0.0
    _finished: float = 0.0
    _seconds: float = 0.0

    def add(self, caller: str | None, weight: float, cost: int, now: float) -> None:
        """Adds an accepted request of a caller."""
        if not self.callers:
            self._measured_until = now  # time without work is not measured
        work = self.callers.setdefault(caller, CallerWork())
        self.total_weight += weight - work.weight
        work.weight = weight
        work.units += cost
        self.units += cost
        self.requests += 1

    def remove(self, caller: str | None, cost: int, now: float, succeeded: bool) -> None:
        """Removes a request. Only one that succeeded counts in the measured speed."""
        self.units -= cost
        self.requests -= 1
        work = self.callers[caller]
        work.units -= cost
        if work.units <= 0:
            self.total_weight -= self.callers.pop(caller).weight
        if not self.units:
            self.invited_until = 0.0
        if succeeded:
            elapsed, self._measured_until = now - self._measured_until, now
            decay = math.exp(-elapsed / MEASURED_SECONDS)
            self._finished = self._finished * decay + cost
            self._seconds = self._seconds * decay + elapsed

    @property
    def speed(self) -> float:
        """Units finished per second with work; infinite until it has been measured."""
        return self._finished / self._seconds if self._finished and self._seconds else math.inf

    def wait(self, caller: str | None) -> float:
        """Returns the seconds until the next request of a caller is served, where callers get shares by weight."""
        if caller is None:
            return self.units / self.speed
        if caller not in self.callers:
            return 0.0
        work = self.callers[caller]
        return min(self.units, work.units * self.total_weight / work.weight) / self.speed


class Permit:
    """The room of one accepted request. `release` gives it back, once; `with` does so at the end of the block, which
    succeeded if it raised nothing."""

    def __init__(self, give_back: Callable[[bool], None]) -> None:
        self._give_back: Callable[[bool], None] | None = give_back

    def __enter__(self) -> Permit:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.release(succeeded=kind is None)

    def release(self, *, succeeded: bool = False) -> None:
        """Gives the room back. Only a request that succeeded counts in the measured speed. Further calls do nothing."""
        if self._give_back is not None:
            self._give_back(succeeded)
            self._give_back = None


def seconds_of_turn(key: int | None, now: float) -> float:
    """Returns the seconds since the last turn of a request began; 0 without a key."""
    return 0.0 if key is None else (now + key % 1_000 * CYCLE_SECONDS / 1_000) % CYCLE_SECONDS


def seconds_to_turn(key: int | None, now: float) -> int:
    """Returns the whole seconds after which the time is in the middle of a turn of a request; 0 without a key."""
    return 0 if key is None else math.ceil((TURN_SECONDS / 4 - seconds_of_turn(key, now)) % CYCLE_SECONDS)


class Admission:
    """Admits about `limit` units of work that are not finished yet; the unit is the user's: tokens, bytes or requests.

    Documents fill at most three quarters of the limit. Short requests fill the rest, and at least a quarter, up to the
    work that the server does in `seconds`. A caller may hold `caller_share` times the room that stays free, so one caller
    cannot fill the queue. A request over these bounds is admitted while no other of its kind is in the queue, so that it
    can be served at all.

    Retry-After is estimated from the measured speed. It ends in the turn of the request (see CYCLE_SECONDS), and each
    rejected request is invited after the work of those before it. While these are to return, requests out of their turn
    get only OUT_OF_TURN_SHARE of the room. So a request that returns is preferred without being remembered.
    """

    def __init__(
        self,
        limit: int,
        seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        *,
        caller_share: float = CALLER_SHARE,
        message: str = "The server is busy; try again later.",
    ) -> None:
        self.limit = limit
        self.clock = clock
        self._seconds = seconds
        self._message = message
        self._caller_share = caller_share
        self._short, self._documents = Queue(), Queue()

    @property
    def accepted(self) -> int:
        """Units of work accepted and not yet finished."""
        return self._short.units + self._documents.units

    @property
    def requests(self) -> int:
        """Requests accepted and not yet finished."""
        return self._short.requests + self._documents.requests

    def admit(
        self,
        cost: int,
        deadline: float | None = None,
        *,
        caller: str | None = None,
        weight: float = 1.0,
        document: bool = False,
        key: int | None = None,
    ) -> Permit:
        """Occupies `cost` units until the `with` block of the returned permit ends, or until its `release`.

        `caller` is the name of the caller whose share counts; without one, no share does. `weight` multiplies the
        share. `deadline` is on the same clock as the class. A `document` waits behind all other work, a short request
        behind short requests only. `key` identifies a request that a client may repeat. Raises Overloaded at once where
        there is no room, or where the queue would take longer than the deadline allows.
        """
        now = self.clock()
        queue = self._documents if document else self._short
        in_turn = now > queue.invited_until + CYCLE_SECONDS or seconds_of_turn(key, now) < TURN_SECONDS
        excess = self._excess(queue, cost, caller, weight, 1.0 if in_turn else OUT_OF_TURN_SHARE)
        if excess > 0:
            due = max(now + excess / queue.speed, queue.invited_until + cost / queue.speed)
            queue.invited_until = min(due, now + LONGEST_RETRY_AFTER - CYCLE_SECONDS)
            seconds = max(1, math.ceil(queue.invited_until - now))
            raise Overloaded(self._message, seconds + seconds_to_turn(key, now + seconds))
        wait = queue.wait(caller)
        if deadline is not None and now + wait > deadline:
            raise Overloaded(
                "The queue is longer than the time this request allows.", max(1, math.ceil(wait / 2)), "deadline"
            )
        queue.add(caller, weight, cost, now)
        return Permit(lambda succeeded: queue.remove(caller, cost, self.clock(), succeeded))

    def _excess(self, queue: Queue, cost: int, caller: str | None, weight: float, part: float) -> float:
        """Returns the units that must finish before `cost` units fit into `part` of the room; not positive where they
        do."""
        if not queue.units:
            return 0.0
        room = self._room(queue)
        over = queue.units + cost - part * room
        if caller is None or caller not in queue.callers:
            return over
        # A caller that holds c units needs c <= share * free. Each of them that finishes adds one to the free units.
        held, share = queue.callers[caller].units, weight * self._caller_share
        largest = part * share * (room - queue.units + held) / (1 + share)
        return max(over, (held + cost - largest) * queue.total_weight / queue.callers[caller].weight)

    def _room(self, queue: Queue) -> float:
        """Returns the units that all requests of a kind may occupy."""
        if queue is self._documents:
            return DOCUMENTS_SHARE * self.limit
        room = max((1 - DOCUMENTS_SHARE) * self.limit, self.limit - self._documents.units)
        return min(room, max(MINIMUM_BOUND, queue.speed * self._seconds))
