"""The time that a training has used, without pauses of the process."""

from __future__ import annotations

import time
from collections.abc import Callable

_PAUSE = 10.0
"""A step that takes this many times the mean of the steps before it was interrupted: the process was stopped, or the
machine was asleep."""
_FIRST_STEPS = 5
"""Steps before a mean is trusted. The first steps compile and allocate."""


class StepClock:
    """Adds up the seconds of training steps. An interrupted step counts as the mean step, so that a pause does not use
    up the budget of a training."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        """Seconds of training, those of earlier runs included."""
        self._clock = clock
        self._last = clock()
        self._steps = 0
        self._mean = 0.0

    def add_step(self) -> float:
        """Adds the time since the last call as one step. Returns all seconds."""
        elapsed = self._elapsed()
        if self._steps >= _FIRST_STEPS and elapsed > _PAUSE * self._mean:
            elapsed = self._mean
        self._steps += 1
        self._mean += (elapsed - self._mean) / self._steps
        self.seconds += elapsed
        return self.seconds

    def add_other(self) -> None:
        """Adds the time since the last call: a checkpoint or a validation."""
        self.seconds += self._elapsed()

    def _elapsed(self) -> float:
        now = self._clock()
        elapsed, self._last = now - self._last, now
        return elapsed
