"""Measures work that a device does: on a GPU by events, because the host only queues it."""

from __future__ import annotations

import time
from typing import Any


class Stopwatch:
    """Starts when it is made, at `started` on time.monotonic()."""

    def __init__(self, cuda: bool) -> None:
        self.started = self._ended = time.monotonic()
        self._events: Any = None
        if cuda:
            import torch

            event: Any = torch.cuda.Event
            self._events = [event(enable_timing=True) for _ in range(2)]
            self._events[0].record()

    def stop(self) -> None:
        """Ends the measured work."""
        self._ended = time.monotonic()
        if self._events is not None:
            self._events[1].record()

    def seconds(self) -> float | None:
        """Returns the time between both moments, None while the device has not reached the second."""
        if self._events is None:
            return self._ended - self.started
        begin, end = self._events
        return float(begin.elapsed_time(end)) / 1000 if end.query() else None
