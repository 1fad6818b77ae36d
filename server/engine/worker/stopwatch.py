"""Measures work that a device does."""

from __future__ import annotations

import time
from typing import Any


class Stopwatch:
    """Starts when it is made, at `started` on time.monotonic(). On a GPU, whose work the host only
    queues, it measures by events."""

    def __init__(self, cuda: bool) -> None:
        self.started = self._ended = time.monotonic()
        self._events: list[Any] = []
        if cuda:
            import torch

            event: Any = torch.cuda.Event
            self._events = [event(enable_timing=True) for _ in range(2)]
            self._events[0].record()

    def stop(self) -> None:
        """Ends the measured work."""
        self._ended = time.monotonic()
        for event in self._events[1:]:
            event.record()

    def seconds(self) -> float | None:
        """Returns the time between both moments, None while the device has not reached the end."""
        if not self._events:
            return self._ended - self.started
        begin, end = self._events
        return float(begin.elapsed_time(end)) / 1000 if end.query() else None
