"""The counter of a pool of workers: what the doors of all API processes may have accepted. A door
decides about requests from its last lease and asks nobody."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal

WorkKind = Literal["short", "document", "look"]
"""Documents and short requests share the limit; looks are alignments, scores and attention
requests."""
KINDS: tuple[WorkKind, ...] = ("short", "document", "look")
RENEWAL_SECONDS = 0.1
"""A door renews its lease this often while requests come."""
MINIMUM_TOKENS = 4_000
"""Tokens of short requests that may always wait, because a server with little load has not shown
its full speed."""
DEEP = 1 / 4
"""Share of the work that may always wait. With less accepted work the speed is not measured, and
until as much has finished it is not known: of a batch one answer comes first."""
MEASURED_SECONDS = 30.0
"""Time constant of the measured speed, in seconds with work."""
USUAL_SHARE: dict[WorkKind, float] = {"short": 1.0, "document": 0.1, "look": 0.1}
"""Share of a worker's time that each kind of work gets, until its speed is measured."""


@dataclass(slots=True)
class Load:
    """The work of one kind at one door: the accepted units that are not finished, in all and by
    caller. `finished` units succeeded in `busy` seconds with work, since the door was made."""

    units: float = 0.0
    finished: float = 0.0
    busy: float = 0.0
    callers: Mapping[str | None, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lease:
    """The bounds of a door until its next lease: the units of translations and of looks that it may
    have accepted, those of short requests that may always wait, the seconds of a device for a unit
    of translations and of looks, the units that all doors finish in a second by kind, the units of
    callers at other doors, and the number of doors."""

    translations: float
    looks: float
    least: float
    prices: tuple[float, float]
    speeds: Mapping[WorkKind, float]
    elsewhere: Mapping[tuple[WorkKind, str | None], float] = field(default_factory=dict)
    doors: int = 1


class Backlog:
    """Counts the work of all doors of a pool in units: tokens of a translation's row, and tokens of
    a look. `units` and `looks` bound what is accepted and not finished. `prices` returns the
    seconds of a device that a unit of each took lately. They change all the time, so units are not
    converted when they are accepted. `workers` returns how many there are; without one, as for
    bytes, the speed is unknown until it is measured."""

    def __init__(
        self,
        units: float,
        looks: float = 0.0,
        prices: Callable[[], tuple[float, float]] = lambda: (1.0, 1.0),
        workers: Callable[[], int] = lambda: 0,
    ) -> None:
        self.units, self.looks, self._prices, self._workers = units, looks, prices, workers
        self._doors: dict[Hashable, Mapping[WorkKind, Load]] = {}
        self._leases: dict[Hashable, Lease] = {}
        self._measured = dict.fromkeys(KINDS, (0.0, 0.0))  # finished units and the seconds for them

    def renew(self, door: Hashable, loads: Mapping[WorkKind, Load]) -> Lease:
        """Records what a door has accepted, and returns its next lease: what it has, and its part
        of what is neither its own nor leased to others. So no two doors accept into the same room,
        however late one of them renews."""
        before, self._doors[door] = self._doors.get(door, {}), loads
        for kind, load in loads.items():
            last = before.get(kind, Load())
            busy = (load.busy - last.busy) / len(self._doors)
            self._measure(kind, load.finished - last.finished, busy)
        elsewhere: dict[tuple[WorkKind, str | None], float] = {}
        leased = leased_looks = 0.0
        for name, other in self._doors.items():
            if name == door:
                continue
            leased += max(self._leases[name].translations, _translations(other))
            leased_looks += max(self._leases[name].looks, other["look"].units)
            for kind, load in other.items():
                for caller, units in load.callers.items():
                    elsewhere[kind, caller] = elsewhere.get((kind, caller), 0.0) + units

        def part(limit: float, own: float, leased: float) -> float:
            return own + max(0.0, limit - own - leased) / len(self._doors)

        price, look_price = self._prices()
        self._leases[door] = lease = Lease(
            part(self.units, _translations(loads), leased),
            part(self.looks, loads["look"].units, leased_looks),
            min(MINIMUM_TOKENS, self.units),
            (price, look_price),
            {kind: self._speed(kind, look_price if kind == "look" else price) for kind in KINDS},
            elsewhere,
            len(self._doors),
        )
        return lease

    def leave(self, door: Hashable) -> None:
        """Forgets a door whose process has ended."""
        self._doors.pop(door, None)
        self._leases.pop(door, None)

    def _measure(self, kind: WorkKind, finished: float, seconds: float) -> None:
        decay = math.exp(-seconds / MEASURED_SECONDS)
        before, time = self._measured[kind]
        self._measured[kind] = before * decay + finished, time * decay + seconds

    def _speed(self, kind: WorkKind, price: float) -> float:
        finished, seconds = self._measured[kind]
        if finished >= DEEP * min(MINIMUM_TOKENS, self.units) and seconds:
            return finished / seconds
        return USUAL_SHARE[kind] * self._workers() / price or math.inf


def _translations(loads: Mapping[WorkKind, Load]) -> float:
    return loads["short"].units + loads["document"].units
