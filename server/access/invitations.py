"""Rejected requests that may return: what they were told, and how much of their work comes back."""

from __future__ import annotations

from collections import defaultdict

LATE_SECONDS = 2.0
"""A request has returned in time so long after the moment of its invitation."""
LIMIT = 30_000
"""Most invitations that are remembered; further ones are told, and not preferred when they
return."""
WEIGHT = 1 / 64
"""Weight of one invitation in the measured share of those that return."""


class Invitations:
    """The invitations of one queue by the key of their request. Times are seconds on the clock of
    the admission.

    A client may send new requests without end and return with none, so only the share that has
    returned so far counts as work to come.
    """

    def __init__(self) -> None:
        self.returning = 0.0
        """Measured share of the invitations that are taken up in time."""
        self._by_key: dict[int, tuple[float, float]] = {}  # the moment and the units of work
        self._by_second: defaultdict[int, float] = defaultdict(float)

    def __len__(self) -> int:
        return len(self._by_key)

    def moment(self, key: int | None) -> float | None:
        """Returns the moment for which a request is invited; None for one that is not."""
        known = self._by_key.get(key) if key is not None else None
        return known[0] if known else None

    def is_due(self, key: int | None, now: float) -> bool:
        """Returns whether a request is invited for this moment."""
        moment = self.moment(key)
        return moment is not None and 0 <= now - moment <= LATE_SECONDS

    @property
    def work(self) -> float:
        """The units of rejected work that are expected back."""
        return self.returning * sum(self._by_second.values())

    def due(self, now: float) -> float:
        """The units that are expected back about now: Retry-After is in whole seconds, so they come
        together."""
        if not self._by_second:
            return 0.0
        seconds = range(int(now - LATE_SECONDS), int(now) + 2)
        return self.returning * sum([self._by_second.get(second, 0.0) for second in seconds])

    def add(self, key: int, moment: float, units: float) -> None:
        """Remembers that a request is invited, if there is room."""
        if len(self._by_key) < LIMIT:
            self._by_key[key] = moment, units
            self._by_second[int(moment)] += units

    def take_up(self, key: int | None, now: float) -> None:
        """Forgets the invitation of a request that has come, and those of requests that have not
        come in time."""
        if key is not None and key in self._by_key:
            if self.is_due(key, now):
                self.returning += WEIGHT * (1 - self.returning)
            self._forget(key)
        while (
            self._by_key
            and self._by_key[oldest := next(iter(self._by_key))][0] + LATE_SECONDS < now
        ):
            self.returning -= WEIGHT * self.returning
            self._forget(oldest)
        while self._by_second and (second := next(iter(self._by_second))) + 1 + LATE_SECONDS < now:
            del self._by_second[second]

    def _forget(self, key: int) -> None:
        moment, units = self._by_key.pop(key)
        if int(moment) in self._by_second:
            self._by_second[int(moment)] -= units
