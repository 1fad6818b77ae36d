"""The door of an API process: admits requests by the work that they need, with a share per caller,
and says when a rejected request may return. It decides from the lease of the pool.

Without invitations a client that waits its Retry-After is admitted at the first try in half the
cases at twice the load, and in a quarter at four times; with them in 88 to 100% at both (simulated;
benchmarks/README.md has figures of servers).
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from server.engine.client.lease import DEEP, KINDS, RENEWAL_SECONDS, Backlog, Load, WorkKind
from server.errors import LONGEST_RETRY_AFTER, Overloaded

DOCUMENTS_SHARE = 0.75
"""Share of the limit that documents may fill. The rest is a reserve for short requests."""
CALLER_SHARE, LOOK_SHARE = 3.0, 1.0
"""A caller may hold this many times the room that stays free: alone three quarters of the room, two
callers three sevenths each. So there is always room for another caller (dynamic thresholds,
Choudhury and Hahne 1998)."""
FEW, LARGEST, SMALL = 40, 3.0, 1 / 32
"""While fewer requests are accepted, they may hold LARGEST times the work that may always wait:
three of the largest short requests of a caller leave room for its others. If that takes too long,
only requests of at most SMALL times this work have the room: FEW of them fill little of it."""
ROUNDED_DOWN = 1 / 3
"""Largest part of a second by which Retry-After is shorter than the wait: rounded up, 1.1 seconds
would be almost twice that."""
LATE_SECONDS = 2.0
"""A request that returns at most this long after the moment of its invitation is in time."""
INVITATIONS_LIMIT = 30_000
"""Most invitations that are remembered; requests beyond it have no preference when they return."""
RETURN_WEIGHT, ROWS_WEIGHT = 1 / 64, 1 / 256
"""Weight of an invitation in the measured share of those that return, and of a sentence in the
measured share of the declared rows."""


class Invitations:
    """The rejected requests of one queue that may return: the moment that each was told and its
    work, by the key of the request. Times are seconds on the clock of the admission. Only the
    measured share that returns in time counts as work to come."""

    def __init__(self) -> None:
        self.returning = 0.0
        """Measured share of the invitations that are taken up in time."""
        self._by_key: dict[int, tuple[float, float]] = {}  # moment and units
        self._by_second: defaultdict[int, float] = defaultdict(float)

    def __len__(self) -> int:
        return len(self._by_key)

    def moment(self, key: int | None) -> float | None:
        """Returns the moment for which a request is invited; None without an invitation."""
        invitation = self._by_key.get(key) if key is not None else None
        return invitation[0] if invitation else None

    def is_due(self, key: int | None, now: float) -> bool:
        """Returns whether a request returns in time."""
        moment = self.moment(key)
        return moment is not None and 0 <= now - moment <= LATE_SECONDS

    @property
    def work(self) -> float:
        """The rejected units that are expected back."""
        return self.returning * sum(self._by_second.values())

    def due(self, now: float) -> float:
        """Returns the units that are expected back about now: Retry-After is in whole seconds, so
        they come together."""
        if not self._by_second:
            return 0.0
        seconds = range(int(now - LATE_SECONDS), int(now) + 2)
        return self.returning * sum([self._by_second.get(second, 0.0) for second in seconds])

    def add(self, key: int, moment: float, units: float) -> None:
        """Invites a request, if there is room."""
        if len(self._by_key) < INVITATIONS_LIMIT:
            self._by_key[key] = moment, units
            self._by_second[int(moment)] += units

    def take_up(self, key: int | None, now: float) -> None:
        """Forgets the invitation of a request that has come, and those that were not taken up in
        time."""
        if key is not None and key in self._by_key:
            if self.is_due(key, now):
                self.returning += RETURN_WEIGHT * (1 - self.returning)
            self._forget(key)
        while self._by_key and self._by_key[oldest := next(iter(self._by_key))][0] < (
            now - LATE_SECONDS
        ):
            self.returning -= RETURN_WEIGHT * self.returning
            self._forget(oldest)
        while self._by_second and (second := next(iter(self._by_second))) + 1 + LATE_SECONDS < now:
            del self._by_second[second]

    def _forget(self, key: int) -> None:
        moment, units = self._by_key.pop(key)
        if int(moment) in self._by_second:
            self._by_second[int(moment)] -= units


class Ask(NamedTuple):
    """A request at the door: its units of work, the caller whose share counts (None: no share
    does), the factor of this share, and the key by which it is recognised when it is repeated."""

    cost: float
    caller: str | None = None
    weight: float = 1.0
    key: int | None = None


@dataclass(slots=True)
class CallerWork:
    """The accepted work of one caller. The weight is that of its last request."""

    weight: float = 0.0
    units: float = 0.0
    requests: int = 0


NO_WORK = CallerWork()
"""Of a caller without accepted requests; is not changed."""


@dataclass(slots=True)
class Queue:
    """The accepted requests of one kind. `callers` has those with work, `total_weight` is the sum
    of their weights. `finished` units took `busy` seconds, as in Load."""

    share: float
    units: float = 0.0
    requests: int = 0
    callers: dict[str | None, CallerWork] = field(default_factory=dict)
    total_weight: float = 0.0
    invitations: Invitations = field(default_factory=Invitations)
    finished: float = 0.0
    busy: float = 0.0
    _counted_until: float = 0.0

    def add(self, ask: Ask, now: float) -> None:
        """Adds an accepted request."""
        if not self.callers:
            self._counted_until = now  # time without work is not measured
        work = self.callers.setdefault(ask.caller, CallerWork())
        self.total_weight += ask.weight - work.weight
        work.weight = ask.weight
        work.units += ask.cost
        work.requests += 1
        self.units += ask.cost
        self.requests += 1

    def remove(self, ask: Ask, now: float, succeeded: bool, deep: float) -> None:
        """Removes a request. One that succeeded counts in the measured speed if at least `deep`
        units were accepted: with less work the device is idle at times."""
        if succeeded:
            if self.units >= deep:
                self.busy += now - self._counted_until
                self.finished += ask.cost
            self._counted_until = now
        self.requests -= 1
        self.units = self.units - ask.cost if self.requests else 0.0
        work = self.callers[ask.caller]
        work.units -= ask.cost
        work.requests -= 1
        if not work.requests:
            self.total_weight -= self.callers.pop(ask.caller).weight

    def ahead(self, caller: str | None) -> float:
        """Returns the units before the next request of a caller, where callers get shares by
        weight."""
        if caller is None:
            return self.units
        if (work := self.callers.get(caller)) is None:
            return 0.0
        return min(self.units, work.units * self.total_weight / work.weight)

    def load(self) -> Load:
        """Returns what the pool counts."""
        callers = {caller: work.units for caller, work in self.callers.items()}
        return Load(self.units, self.finished, self.busy, callers)


class Permit:
    """The room of one accepted request. `release` gives it back, once; `with` does so at the end of
    the block, which succeeded if it raised nothing."""

    def __init__(self, give_back: Callable[[bool], None]) -> None:
        self._give_back: Callable[[bool], None] | None = give_back

    def __enter__(self) -> Permit:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.release(succeeded=kind is None)

    def release(self, *, succeeded: bool = False) -> None:
        """Gives the room back. Only a request that succeeded counts in the measured speed."""
        if self._give_back is not None:
            self._give_back(succeeded)
            self._give_back = None


class Admission:
    """Admits the work that the lease of a `backlog` allows. Costs are in its units: tokens of rows,
    tokens of looks, or bytes.

    Documents fill at most three quarters of the limit. Short requests fill the rest, and at least a
    quarter, up to the work that is done in `seconds`. A caller may hold `caller_share` times the
    room that stays free. A request over these bounds is admitted while no other of its kind is in
    the queue, so that it can be served at all.

    Retry-After is the work that must be finished first, and that of the invited requests that
    return (`Invitations`), at the measured speed. Room for those that return about now is kept from
    others.
    """

    def __init__(
        self,
        backlog: Backlog,
        seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        *,
        caller_share: float = CALLER_SHARE,
        message: str = "The server is busy; try again later.",
    ) -> None:
        self.clock = clock
        self._backlog, self._seconds, self._message = backlog, seconds, message
        shares = {"short": caller_share, "document": caller_share, "look": LOOK_SHARE}
        self.queues: dict[WorkKind, Queue] = {kind: Queue(shares[kind]) for kind in KINDS}
        self._due = -math.inf
        self.renew()

    @property
    def accepted(self) -> float:
        """Tokens of translations, times rows, that are accepted and not finished."""
        return self.queues["short"].units + self.queues["document"].units

    @property
    def requests(self) -> int:
        """Translations accepted and not yet finished."""
        return self.queues["short"].requests + self.queues["document"].requests

    @property
    def device_seconds(self) -> float:
        """The seconds of a device that all accepted work takes, at the present prices."""
        price, look_price = self.lease.prices
        return self.accepted * price + self.queues["look"].units * look_price

    def renew(self) -> float:
        """Takes a new lease if the last one is old. Returns the time on the clock."""
        now = self.clock()
        if self._due <= now:
            self._due = now + RENEWAL_SECONDS
            loads = {kind: queue.load() for kind, queue in self.queues.items()}
            self.lease = self._backlog.renew(self, loads)
        return now

    def admit(
        self,
        cost: float,
        deadline: float | None = None,
        *,
        caller: str | None = None,
        weight: float = 1.0,
        kind: WorkKind = "short",
        key: int | None = None,
    ) -> Permit:
        """Occupies `cost` units until the `with` block of the returned permit ends, or until its
        `release`; see Ask.

        `deadline` is on the clock of the class. Work waits behind that of its kind, documents
        behind all. Raises Overloaded at once where there is no room, or where the queue would take
        longer than the deadline allows.
        """
        ask, now, queue = Ask(cost, caller, weight, key), self.renew(), self.queues[kind]
        if deadline is not None and now > deadline:
            raise TimeoutError
        if (error := self._rejection(ask, (kind,), now)) is not None:
            raise error
        if queue.invitations:
            queue.invitations.take_up(key, now)
        wait, deep = queue.ahead(caller) / self.lease.speeds[kind], DEEP * self.lease.least
        # With less work the speed is not measured, so one that is too low, as after a freeze, would
        # stay.
        if deadline is not None and queue.units >= deep and now + wait > deadline:
            sentence = "The queue is longer than the time this request allows."
            raise Overloaded(sentence, max(1, math.ceil(wait / 2)), "deadline")
        queue.add(ask, now)
        return Permit(lambda succeeded: queue.remove(ask, self.clock(), succeeded, deep))

    def refusal(
        self, cost: float, caller: str | None, key: int | None, *kinds: WorkKind
    ) -> Overloaded | None:
        """Returns the error of a request of about `cost` units that `admit` would reject as each of
        these kinds, before more is known of it; else None."""
        now = self.renew()
        if any(self.queues[kind].invitations.is_due(key, now) for kind in kinds):
            return None
        return self._rejection(Ask(cost, caller, key=key), kinds, now)

    def _rejection(self, ask: Ask, kinds: tuple[WorkKind, ...], now: float) -> Overloaded | None:
        """Returns the error of a request that fits as none of these kinds, and invites it."""
        for kind in kinds:
            excess, reason = self._excess(ask, kind, now)
            if excess <= 0:
                return None
        invitations, speed = self.queues[kind].invitations, self.lease.speeds[kind]
        moment = invitations.moment(ask.key)
        if moment is not None and moment > now:  # it came too early
            return Overloaded(self._message, math.ceil(moment - now), reason)
        invitations.take_up(ask.key, now)
        wait = min((excess + invitations.work) / speed, LONGEST_RETRY_AFTER)
        seconds = max(1, math.ceil(wait - ROUNDED_DOWN))
        if ask.key is not None:
            invitations.add(ask.key, now + seconds, ask.cost)
        return Overloaded(self._message, seconds, reason)

    def _excess(self, ask: Ask, kind: WorkKind, now: float) -> tuple[float, str]:
        """Returns the units that must finish before a request fits beside those that are expected
        back, not positive where it fits, and the reason of a rejection: the caller where all others
        would fit."""
        queue, lease, (cost, caller, weight, key) = self.queues[kind], self.lease, ask
        if not queue.units:
            return 0.0, ""
        work = queue.callers.get(caller, NO_WORK)
        held = 0.0 if caller is None else work.units + lease.elsewhere.get((kind, caller), 0.0)
        room, kept = self._room(kind, cost), 0.0
        if (due := queue.invitations.due(now)) and not queue.invitations.is_due(key, now):
            # As much stays free for one that is new as beside these callers if they had all that
            # they may hold.
            others = queue.share * max(1, len(queue.callers))
            kept = min(due, max(0.0, room * others / (1 + others) - queue.units + held))
        free = room - kept - queue.units
        over = cost - free
        if not held or over > queue.units:
            return over, "queue"
        # A caller that holds c units needs c <= share * free. Each of them that finishes adds one
        # to the free units, and so does each of the others: of the units that finish, the part
        # `own` is the caller's.
        share, own = weight * queue.share, weight / (queue.total_weight + weight - work.weight)
        factor = share / (1 + share)
        excess = held + cost - factor * (lease.doors * free + held)
        excess /= own + factor * (1 - own)
        return max(over, min(excess, queue.units)), "queue" if over > 0 else "caller"

    def _room(self, kind: WorkKind, cost: float) -> float:
        """Returns the units that all requests of a kind may occupy with one of this cost."""
        lease = self.lease
        if kind == "look":
            return lease.looks
        if kind == "document":
            return DOCUMENTS_SHARE * lease.translations
        reserve = (1 - DOCUMENTS_SHARE) * lease.translations
        room = max(reserve, lease.translations - self.queues["document"].units)
        few = LARGEST * lease.least if self.queues[kind].requests < FEW else 0.0
        if cost > SMALL * lease.least:
            few = min(few, self._seconds / lease.prices[0])
        return min(room, max(lease.least, lease.speeds[kind] * self._seconds, few))


class RowShares:
    """The share of the rows that a sentence declares (`server.translation.sentence.declared`) which
    such sentences lately used, by form: `beam`, `list` and so on."""

    def __init__(self) -> None:
        self._shares = {"beam": 1.0, "list": 1.0, "reverse": 1.0, "attention": 1.0, "wider": 0.5}

    def rows(self, declared: Mapping[Any, int], look: float = 1.0) -> float:
        """Returns how many of the declared rows a sentence is expected to need, where the attention
        of a translation takes as long as `look` rows."""
        shares = self._shares
        used = {form: most * shares[form] for form, most in declared.items() if form in shares}
        looks = used.get("links", 0.0) + used.get("attention", 0.0)
        return sum(used.values()) + (look - 1.0) * looks

    def note(self, declared: Mapping[Any, int], spent: Mapping[Any, int]) -> None:
        """Takes the rows of a sentence into account."""
        shares = self._shares
        for form in spent:
            shares.setdefault(form, 0.0)
        for form, share in shares.items():
            if most := declared.get(form):
                shares[form] = share + ROWS_WEIGHT * (spent.get(form, 0) / most - share)
