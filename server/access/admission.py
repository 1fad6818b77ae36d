"""The door of the server: accepts work by the time that it takes of a device, with a share per caller, and says when a
rejected request may return.

Without invitations a client that waits its Retry-After is admitted at the first try in half the cases at twice the load, and in
a quarter at four times; with them, and the hash of the request as their key, in 93 to 100% and 66 to 100% (simulated).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from server.access.invitations import Invitations
from server.errors import LONGEST_RETRY_AFTER, Overloaded

WorkKind = Literal["short", "document", "look"]
"""Documents and short requests share the limit; looks are alignments, scores and attention requests."""
DOCUMENTS_SHARE = 0.75
"""Share of the limit that documents may fill. The rest is a reserve for short requests."""
CALLER_SHARE, LOOK_SHARE = 3.0, 1.0
"""A caller may hold this many times the room that stays free: alone three quarters of the room, two callers three
sevenths each. So there is always room for another caller (dynamic thresholds, Choudhury and Hahne 1998)."""
MINIMUM_BOUND = 4_000
"""Units of short requests that may always wait, because a server with little load has not shown its full speed."""
MEASURED_SECONDS = 30.0
"""Time constant of the measured speed, in seconds with work."""
UNINVITED_SHARE = 0.9
"""Part of the room, and of a caller's share, for requests that were not rejected before, while rejected ones may return."""
ROUNDED_DOWN = 1 / 3
"""Largest part of a second by which Retry-After is shorter than the wait: rounded up, 1.1 seconds would be almost twice that."""


@dataclass(slots=True)
class CallerWork:
    """The accepted work of one caller. The weight is that of its last request."""

    weight: float = 0.0
    units: int = 0


@dataclass(slots=True)
class Queue:
    """The accepted requests of one kind, and the speed at which they are finished."""

    share: float
    units: int = 0
    """Units of work accepted and not yet finished."""
    requests: int = 0
    callers: dict[str | None, CallerWork] = field(default_factory=dict)
    """The same by caller; one without work is left out."""
    total_weight: float = 0.0
    """Sum of the weights of these callers."""
    invitations: Invitations = field(default_factory=Invitations)
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


class Admission:
    """Admits about `limit` units of work that are not finished yet, and apart from them `looks` units of looks. The unit is the
    time that one token of a plain translation takes, for looks that of one token of theirs; or another of the user.

    Documents fill at most three quarters of the limit. Short requests fill the rest, and at least a quarter, up to the
    work that the server does in `seconds`. A caller may hold `caller_share` times the room that stays free, so one caller
    cannot fill the queue. A request over these bounds is admitted while no other of its kind is in the queue, so that it
    can be served at all.

    Retry-After is estimated from the measured speed: the work that must be finished first, and that of the requests rejected
    before, as far as such requests return (`Invitations`). While some may return, others get only UNINVITED_SHARE of the
    room.
    """

    def __init__(
        self,
        limit: int,
        seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        *,
        looks: int = 0,
        caller_share: float = CALLER_SHARE,
        message: str = "The server is busy; try again later.",
    ) -> None:
        self.limit = limit
        self.clock = clock
        self._seconds = seconds
        self._message = message
        self._looks = looks
        self.queues: dict[WorkKind, Queue] = {
            "short": Queue(caller_share), "document": Queue(caller_share), "look": Queue(LOOK_SHARE)
        }  # fmt: skip

    @property
    def accepted(self) -> int:
        """Units of translations accepted and not yet finished."""
        return self.queues["short"].units + self.queues["document"].units

    @property
    def requests(self) -> int:
        """Translations accepted and not yet finished."""
        return self.queues["short"].requests + self.queues["document"].requests

    def admit(
        self,
        cost: int,
        deadline: float | None = None,
        *,
        caller: str | None = None,
        weight: float = 1.0,
        kind: WorkKind = "short",
        key: int | None = None,
    ) -> Permit:
        """Occupies `cost` units until the `with` block of the returned permit ends, or until its `release`.

        `caller` is the name of the caller whose share counts; without one, no share does. `weight` multiplies it. `deadline` is
        on the same clock as the class. Work waits behind that of its kind, documents behind all. `key` identifies a request that
        a client may repeat. Raises Overloaded at once where there is no room, or where the queue would take longer than the
        deadline allows.
        """
        now = self.clock()
        queue = self.queues[kind]
        if deadline is not None and now > deadline:
            raise TimeoutError
        invitations = queue.invitations
        invited = not invitations or invitations.is_due(key, now)
        excess = self._excess(kind, cost, caller, weight, 1.0 if invited else UNINVITED_SHARE)
        if excess > 0:
            raise self._overloaded(kind, excess, cost, key, now)
        if invitations:
            invitations.take_up(key, now)
        wait = queue.wait(caller)
        if deadline is not None and now + wait > deadline:
            raise Overloaded(
                "The queue is longer than the time this request allows.", max(1, math.ceil(wait / 2)), "deadline"
            )
        queue.add(caller, weight, cost, now)
        return Permit(lambda succeeded: queue.remove(caller, cost, self.clock(), succeeded))

    def refuse_early(self, cost: int, caller: str | None, key: int | None, *kinds: WorkKind) -> None:
        """Raises Overloaded for a request of about `cost` units that `admit` would reject as any of these kinds, before more is
        known of it."""
        now = self.clock()
        for kind in kinds:
            invitations = self.queues[kind].invitations
            excess = self._excess(kind, cost, caller, 1.0, UNINVITED_SHARE if invitations else 1.0)
            if excess <= 0 or invitations.is_due(key, now):
                return
        raise self._overloaded(kind, excess, cost, key, now)

    def _overloaded(self, kind: WorkKind, excess: float, cost: int, key: int | None, now: float) -> Overloaded:
        """Returns the error of a request that does not fit. Its reason is the caller where all others would fit."""
        queue = self.queues[kind]
        reason = "queue" if queue.units + cost > UNINVITED_SHARE * self._room(kind) else "caller"
        return Overloaded(self._message, self._invite(queue, excess, cost, key, now), reason)

    def _invite(self, queue: Queue, excess: float, cost: int, key: int | None, now: float) -> int:
        """Returns the whole seconds after which a request that does not fit may return, and remembers them by its key."""
        invitations = queue.invitations
        moment = invitations.moment(key)
        if moment is not None and moment > now:  # it came too early
            return math.ceil(moment - now)
        invitations.take_up(key, now)
        wait = min((excess + invitations.work) / queue.speed, LONGEST_RETRY_AFTER)
        seconds = max(1, math.ceil(wait - ROUNDED_DOWN))
        if key is not None:
            invitations.add(key, now + seconds, cost)
        return seconds

    def _excess(self, kind: WorkKind, cost: int, caller: str | None, weight: float, part: float) -> float:
        """Returns the units that must finish before `cost` units fit into `part` of the room; not positive where they
        do."""
        queue, room = self.queues[kind], self._room(kind)
        if not queue.units:
            return 0.0
        over = queue.units + cost - part * room
        if caller is None or caller not in queue.callers:
            return over
        # A caller that holds c units needs c <= share * free. Each of them that finishes adds one to the free units, and so
        # does each of the others: of the units that finish, the part `own` is the caller's.
        held, share = queue.callers[caller].units, weight * queue.share
        factor = part * share / (1 + share)
        own = queue.callers[caller].weight / queue.total_weight
        excess = (held + cost - factor * (room - queue.units + held)) / (own + factor * (1 - own))
        return max(over, min(excess, queue.units))

    def _room(self, kind: WorkKind) -> float:
        """Returns the units that all requests of a kind may occupy."""
        if kind == "look":
            return self._looks
        if kind == "document":
            return DOCUMENTS_SHARE * self.limit
        room = max((1 - DOCUMENTS_SHARE) * self.limit, self.limit - self.queues["document"].units)
        return min(room, max(MINIMUM_BOUND, self.queues["short"].speed * self._seconds))
