"""Shares one translation among identical requests that are in flight at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from server.engine.client.status import WorkerFailure, server_error

Result = TypeVar("Result")


class Waiter(Generic[Result]):
    """One caller's share of a computation in flight: `await waiter.result()`, and in any case `waiter.leave()`."""

    __slots__ = ("_in_flight", "_waiting")

    def __init__(self, in_flight: _InFlight[Result]) -> None:
        self._in_flight = in_flight
        self._waiting = True
        in_flight.waiters += 1

    async def result(self) -> Result:
        """Returns the result or raises its exception, a WorkerFailure as an error of `server.errors`. Cancelling this
        wait does not affect the other waiters."""
        try:
            return await self._in_flight.future_for_waiter()
        except WorkerFailure as failure:
            raise server_error(failure) from failure

    def leave(self) -> None:
        """Gives up the share; when the last waiter leaves an unfinished computation, it is cancelled."""
        if self._waiting:
            self._waiting = False
            self._in_flight.waiters -= 1
            if self._in_flight.waiters == 0:
                self._in_flight.cancel()


class _InFlight(Generic[Result]):
    """One computation and the futures of its waiters."""

    __slots__ = ("_futures", "_in_flight", "_key", "future", "waiters")

    def __init__(
        self, future: asyncio.Future[Result], key: Hashable, in_flight: dict[Hashable, _InFlight[Result]]
    ) -> None:
        self.future = future
        self.waiters = 0
        self._futures: list[asyncio.Future[Result]] = []
        self._key = key
        self._in_flight = in_flight
        future.add_done_callback(self._notify)

    def future_for_waiter(self) -> asyncio.Future[Result]:
        """Returns a future of the waiter's own, for the same result."""
        if self.future.done():
            return self.future
        future: asyncio.Future[Result] = self.future.get_loop().create_future()
        self._futures.append(future)
        return future

    def cancel(self) -> None:
        if not self.future.done():
            self._remove()
            self.future.cancel()

    def _remove(self) -> None:
        found = self._in_flight.pop(self._key, None)
        if found is not None and found is not self:  # a later computation has the same key
            self._in_flight[self._key] = found

    def _notify(self, done: asyncio.Future[Result]) -> None:
        self._remove()
        error = None if done.cancelled() else done.exception()  # reading the exception also marks it as retrieved
        for future in self._futures:
            if future.done():
                continue
            if done.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())


class SingleFlight(Generic[Result]):
    """Shares one future among all callers that join with the same key while it runs.

    This is not a cache: nothing is kept once the future is done, and a later caller starts a new computation.
    """

    def __init__(self) -> None:
        self._in_flight: dict[Hashable, _InFlight[Result]] = {}
        self.shared = 0
        """How many callers joined a computation that another one had started."""

    def __len__(self) -> int:
        return len(self._in_flight)

    def join(self, key: Hashable, start: Callable[[], asyncio.Future[Result]]) -> Waiter[Result]:
        """Returns a waiter for the computation with this key; calls `start` where none is in flight."""
        in_flight = self._in_flight.get(key)
        if in_flight is None:
            in_flight = self._in_flight[key] = _InFlight(start(), key, self._in_flight)
        else:
            self.shared += 1
        return Waiter(in_flight)
