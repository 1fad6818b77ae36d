"""Shares one translation among identical requests that are in flight at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from server.engine.client.status import WorkerFailure, server_error

Result = TypeVar("Result")


class Waiter(Generic[Result]):
    """One caller's share of a computation in flight: `await waiter.result()`, and in any case `waiter.leave()`."""

    __slots__ = ("_computation", "_waiting")

    def __init__(self, computation: _Computation[Result]) -> None:
        self._computation = computation
        self._waiting = True
        computation.waiters += 1

    async def result(self) -> Result:
        """Returns the result or raises its exception, a WorkerFailure as an error of `server.errors`. Cancelling this
        wait does not affect the other waiters."""
        try:
            return await asyncio.shield(self._computation.future)
        except WorkerFailure as failure:
            raise server_error(failure) from failure

    def leave(self) -> None:
        """Gives up the share; when the last waiter leaves an unfinished computation, it is cancelled."""
        if self._waiting:
            self._waiting = False
            self._computation.waiters -= 1
            if not self._computation.waiters and not self._computation.future.done():
                self._computation.remove()
                self._computation.future.cancel()


class _Computation(Generic[Result]):
    """A future and the number of its waiters. It is in `in_flight` until it is done or cancelled."""

    __slots__ = ("_in_flight", "_key", "future", "waiters")

    def __init__(
        self, future: asyncio.Future[Result], key: Hashable, in_flight: dict[Hashable, _Computation[Result]]
    ) -> None:
        self.future = future
        self.waiters = 0
        self._key, self._in_flight = key, in_flight
        in_flight[key] = self
        future.add_done_callback(self.remove)

    def remove(self, _: object = None) -> None:
        if self._in_flight.get(self._key) is self:  # a later computation may have the same key
            del self._in_flight[self._key]


class SingleFlight(Generic[Result]):
    """Shares one future among all callers that join with the same key while it runs.

    This is not a cache: nothing is kept once the future is done, and a later caller starts a new computation.
    """

    def __init__(self) -> None:
        self._in_flight: dict[Hashable, _Computation[Result]] = {}
        self.shared = 0
        """How many callers joined a computation that another one had started."""

    def __len__(self) -> int:
        return len(self._in_flight)

    def join(self, key: Hashable, start: Callable[[], asyncio.Future[Result]]) -> Waiter[Result]:
        """Returns a waiter for the computation with this key; calls `start` where none is in flight."""
        computation = self._in_flight.get(key)
        if computation is None:
            computation = _Computation(start(), key, self._in_flight)
        else:
            self.shared += 1
        return Waiter(computation)
