"""How much of the device documents get while interactive sequences run: a share of the time, and a part of the slots."""

from __future__ import annotations

import math

_DOCUMENT_TIME = 1 / 3
"""Time by which documents may delay interactive sequences, as a share of the running time of these. Documents thus get a
quarter of all time."""
_LARGEST_BALANCE = 0.1
"""Documents that did not use their time may use this many seconds of it later."""
_SMOOTHING = 0.2
_LONGEST_RUN = 16
"""After this many steps in a row with documents, one without them is measured."""
_RESERVED = 0.75
_RESERVE_SECONDS = 2.0
"""The reserve for interactive sequences is the number of slots that they needed in about the last _RESERVE_SECONDS, at
most the share _RESERVED of all slots."""


class DocumentTurns:
    """Decides when documents decode beside interactive sequences.

    The delay is measured as the difference between steps with and without documents. On a device where a step takes as
    long for more rows there is none, and documents run in all steps but those that measure.
    """

    def __init__(self) -> None:
        self._balance = 0.0
        """Seconds by which documents may delay interactive sequences now; below 0 they pause."""
        self._step = 0.0
        """Seconds of a decode step without documents."""
        self._run = 0
        """Steps with documents since the last one without."""

    @property
    def due(self) -> bool:
        """Whether documents may run now."""
        return self._balance >= 0 and self._run < _LONGEST_RUN

    def record_steps(self, seconds: float, steps: int, *, documents: bool) -> None:
        """Records that `steps` decode steps with interactive sequences took `seconds`, and whether `documents` decoded
        too."""
        if documents:
            self._run += steps
            own = min(seconds, steps * self._step)
            self.record_delay(seconds - own)
            self.record_interactive(own)
            return
        self._run = 0
        self._step += (_SMOOTHING if self._step else 1.0) * (seconds / steps - self._step)
        self.record_interactive(seconds)

    def record_interactive(self, seconds: float) -> None:
        """Records that interactive sequences ran for `seconds`."""
        self._balance = min(_LARGEST_BALANCE, self._balance + _DOCUMENT_TIME * seconds)

    def record_delay(self, seconds: float) -> None:
        """Records that documents delayed interactive sequences by `seconds`."""
        self._balance -= seconds


class InteractiveReserve:
    """The slots of a queue that documents leave free, out of `total`. Times are in seconds."""

    def __init__(self, total: int) -> None:
        self._largest = int(_RESERVED * total)
        self._needed = 0.0
        self._updated = 0.0

    def update(self, needed: int, now: float) -> None:
        """Records the number of slots that interactive sequences, running and waiting, need now."""
        self._needed = max(float(needed), self._needed * math.exp((self._updated - now) / _RESERVE_SECONDS))
        self._updated = now

    @property
    def slots(self) -> int:
        """The reserved slots."""
        return min(self._largest, round(self._needed))
