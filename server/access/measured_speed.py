"""The speed at which accepted work is finished, measured from the requests that succeeded."""

from __future__ import annotations

import math

MEASURED_SECONDS = 30.0
"""Time constant of the measurement, in seconds with work."""


class MeasuredSpeed:
    """Units of work finished per second, over about the last MEASURED_SECONDS with work.

    A request that succeeded gives one sample: the units that all requests finished while it was accepted, per second.
    Its weight is its cost, so the speed is that of a loaded server. A request that failed, was cancelled or timed out
    gives no sample. Times are seconds on the caller's clock.
    """

    def __init__(self) -> None:
        self.finished = 0
        """Units finished since the start."""
        self._units = 0.0
        self._seconds = 0.0

    def record(self, cost: int, seconds: float, finished_before: int, elapsed: float) -> None:
        """A request of `cost` units succeeded after `seconds`. `finished_before` is the value of `finished` when it was
        accepted, `elapsed` the time with work since the sample before."""
        self.finished += cost
        decay = math.exp(-elapsed / MEASURED_SECONDS)
        self._units = self._units * decay + cost * (self.finished - finished_before)
        self._seconds = self._seconds * decay + cost * seconds

    def seconds(self, units: float) -> float | None:
        """Returns the time that `units` take, or None before the first sample."""
        return units * self._seconds / self._units if self._units else None

    def units(self, seconds: float) -> float | None:
        """Returns the units that are finished in `seconds`, or None before the first sample."""
        return seconds * self._units / self._seconds if self._seconds else None
