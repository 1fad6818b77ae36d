"""Rejected requests that may return: what they were told, and how much of their work comes back."""

from __future__ import annotations

LATE_SECONDS = 2.0
"""A request has returned in time so long after the moment of its invitation."""
LIMIT = 10_000
"""Most invitations that are remembered; further ones are told, and not preferred when they return."""
WEIGHT = 1 / 64
"""Weight of one invitation in the measured share of those that return."""


class Invitations:
    """The invitations of one queue by the key of their request.

    A client may send new requests without end and return with none, so only the share that has returned so far counts as
    work to come.
    """

    def __init__(self) -> None:
        self.returning = 0.0
        """Measured share of the invitations that are taken up in time."""
        self._by_key: dict[int, tuple[float, int]] = {}
        """The moment, on the clock of the admission in seconds, and the units of work."""
        self._units = 0

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
        return self.returning * self._units

    def add(self, key: int, moment: float, units: int) -> None:
        """Remembers that a request is invited, if there is room."""
        if len(self._by_key) >= LIMIT:
            return
        self._by_key[key] = moment, units
        self._units += units

    def take_up(self, key: int | None, now: float) -> None:
        """Forgets the invitation of a request that has come, and those of requests that have not come in time."""
        if key is not None and key in self._by_key:
            if self.is_due(key, now):
                self.returning += WEIGHT * (1 - self.returning)
            self._forget(key)
        while self._by_key:
            oldest = next(iter(self._by_key))
            if self._by_key[oldest][0] + LATE_SECONDS >= now:
                return
            self.returning -= WEIGHT * self.returning
            self._forget(oldest)

    def _forget(self, key: int) -> None:
        self._units -= self._by_key.pop(key)[1]
