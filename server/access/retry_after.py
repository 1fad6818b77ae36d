"""Who was told to come back, and when: a Retry-After that is kept."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable

LONGEST_SECONDS = 120
"""Nobody is told to wait longer."""
KEPT_SECONDS = 10.0
"""How long a place is kept for somebody who is late."""
EARLY_SECONDS = 0.1
"""Clocks differ: who is early by so little is in time."""
SIZE = 50_000


class Promises:
    """Promises by the key of a request. Times are seconds on the caller's clock. One turn after another: each is due
    when the work promised before it can be done, so that not all come back at once."""

    def __init__(self) -> None:
        self._given: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # key -> due, forgotten after
        self._latest = 0.0

    def __len__(self) -> int:
        return len(self._given)

    def due(self, key: Hashable, now: float) -> bool:
        """Whether a place is kept for this request now."""
        while self._given and next(iter(self._given.values()))[1] < now:
            self._given.popitem(last=False)
        given = self._given.get(key)
        return given is not None and given[0] - EARLY_SECONDS <= now <= given[1]

    def promise(self, key: Hashable, now: float, wait: float, work: float) -> int:
        """Whole seconds after which `key` finds a place. `wait`: until there is room at all; `work`: what it will take.
        Who asks again too early is told the rest of its time."""
        given = self._given.pop(key, None)
        if given is not None and now < given[0]:
            due = given[0]
        else:
            due = self._latest = min(now + LONGEST_SECONDS, max(now + wait, self._latest + work))
        seconds = max(1, math.ceil(due - now))
        self._given[key] = (due, now + seconds + KEPT_SECONDS)
        if len(self._given) > SIZE:
            self._given.popitem(last=False)
        return seconds

    def keep(self, key: Hashable) -> None:
        """The request got in."""
        self._given.pop(key, None)
