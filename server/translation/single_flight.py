"""Identical work that is under way at the same time is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Seat(Generic[Result]):
    """One caller's share of a flight: `await seat.result()`, and in any case `seat.leave()` at the end."""

    def __init__(self, flight: _Flight[Result]) -> None:
        self._flight = flight
        self._seated = True
        flight.seats += 1

    async def result(self) -> Result:
        """The flight's result or exception. Cancelling this wait leaves the others undisturbed."""
        return await self._flight.landing()

    def leave(self) -> None:
        """Gives the seat up; the last one to leave an unfinished flight cancels it."""
        if self._seated:
            self._seated = False
            self._flight.seats -= 1
            if self._flight.seats == 0:
                self._flight.abandon()


class _Flight(Generic[Result]):
    def __init__(self, future: asyncio.Future[Result], key: Hashable, flights: dict[Hashable, _Flight[Result]]) -> None:
        self.future = future
        self.seats = 0
        self._waiting: list[asyncio.Future[Result]] = []
        self._key = key
        self._flights = flights
        future.add_done_callback(self._land)

    def landing(self) -> asyncio.Future[Result]:
        """A future of the caller's own, for the same result."""
        if self.future.done():
            return self.future
        waiting: asyncio.Future[Result] = self.future.get_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def abandon(self) -> None:
        if not self.future.done():
            self._forget()
            self.future.cancel()

    def _forget(self) -> None:
        if self._flights.get(self._key) is self:  # a successor may already fly under the same key
            del self._flights[self._key]

    def _land(self, future: asyncio.Future[Result]) -> None:
        self._forget()
        error = None if future.cancelled() else future.exception()  # which also marks it as seen
        for waiting in self._waiting:
            if waiting.done():
                continue
            if future.cancelled():
                waiting.cancel()
            elif error is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(future.result())


class SingleFlight(Generic[Result]):
    """Shares one future between all who ask for the same key while it runs.

    Nothing is kept once the future is done: this is no cache, every later caller starts anew.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Result]] = {}
        self.shared = 0
        """Seats taken in a flight that somebody else had started."""

    def __len__(self) -> int:
        return len(self._flights)

    def join(self, key: Hashable, start: Callable[[], asyncio.Future[Result]]) -> Seat[Result]:
        """A seat in the flight of this key; `start()` is called where none is under way."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(start(), key, self._flights)
        else:
            self.shared += 1
        return Seat(flight)
