"""How much of the device documents get while interactive sequences run: a share of the time, and a part of the slots."""

from __future__ import annotations

import math

_INTERACTIVE_SHARE = 3.0
"""After documents have delayed interactive sequences by t seconds, these run without documents for
_INTERACTIVE_SHARE * t."""
_SMOOTHING = 0.2
_RESERVED, _HEADROOM = 0.75, 2
_RESERVE_SECONDS = 2.0
"""The reserve for interactive sequences is _HEADROOM times the slots that they needed in about the last
_RESERVE_SECONDS, at most the share _RESERVED of all slots."""


class DocumentTurns:
    """Decides when documents decode beside interactive sequences.

    The delay is measured as the difference between steps with and without documents. On a device where a step takes as
    long for more rows there is none, and documents run in every step.
    """

    def __init__(self) -> None:
        self._next = 0.0
        self._step = 0.0
        """Seconds of a decode step without documents."""

    def due(self, now: float) -> bool:
        """Whether documents may run now."""
        return now >= self._next

    def record_steps(self, now: float, seconds: float, steps: int, *, documents: bool) -> None:
        """`steps` decode steps with interactive sequences that ended now took `seconds`; `documents` tells whether
        documents decoded too."""
        if documents:
            self.record_delay(now, seconds - steps * self._step)
        elif self._step:
            self._step += _SMOOTHING * (seconds / steps - self._step)
        else:
            self._step = seconds / steps

    def record_delay(self, now: float, seconds: float) -> None:
        """Documents delayed interactive sequences by `seconds`, until now."""
        if seconds > 0:
            self._next = max(self._next, now) + _INTERACTIVE_SHARE * seconds


class InteractiveReserve:
    """The slots of a queue that documents leave free, out of `total`. Times are in seconds."""

    def __init__(self, total: int) -> None:
        self._largest = int(_RESERVED * total)
        self._needed = 0.0
        self._updated = 0.0

    def update(self, needed: int, now: float) -> None:
        """Interactive sequences, running and waiting, need so many slots now."""
        self._needed = max(float(needed), self._needed * math.exp((self._updated - now) / _RESERVE_SECONDS))
        self._updated = now

    @property
    def slots(self) -> int:
        """The reserved slots."""
        return min(self._largest, round(_HEADROOM * self._needed))
