"""Shares one translation among identical requests that are in flight at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Computation(Generic[Result]):
    future: asyncio.Future[Result]
    callers: int = 0


class SingleFlight(Generic[Result]):
    """Shares one future among all callers with the same key while it runs.

    This is not a cache: nothing is kept once the future is done, and a later caller starts a new computation.
    """

    def __init__(self) -> None:
        self._in_flight: dict[Hashable, _Computation[Result]] = {}
        self.shared = 0
        """How many callers joined a computation that another one had started."""

    def __len__(self) -> int:
        return len(self._in_flight)

    async def run(self, key: Hashable, start: Callable[[], asyncio.Future[Result]]) -> Result:
        """Returns the result for this key; calls `start` where none is in flight. When the last caller is cancelled, the
        future is cancelled."""
        computation = self._in_flight.get(key)
        if computation is None:
            computation = self._in_flight[key] = _Computation(start())
            computation.future.add_done_callback(lambda _: self._forget(key, computation))
        else:
            self.shared += 1
        computation.callers += 1
        try:
            return await asyncio.shield(computation.future)
        finally:
            computation.callers -= 1
            if not computation.callers and not computation.future.done():
                self._forget(key, computation)
                computation.future.cancel()

    def _forget(self, key: Hashable, computation: _Computation[Result]) -> None:
        if self._in_flight.get(key) is computation:  # a later computation may have the same key
            del self._in_flight[key]
