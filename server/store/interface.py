"""The interface of a store: tables of permanent records, and collections of records that expire.

A table maps ids to bytes. Every change gives it a new version, by which readers notice changes and
writers conflicts. A collection is bounded; its oldest records are deleted first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from server.errors import StateUnreachable

log = logging.getLogger(__name__)
BEAT_SECONDS = 0.5
RECORDS_LIMIT = 10_000
RECORDS_BYTES = 50_000_000
"""Bounds of the records of `put` in a collection."""
Changes = Mapping[str, Mapping[str, bytes | None]]
"""New records by table and id; None deletes a record."""
Task = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a collection: number of records, their bytes, and the life of each in seconds."""

    size: int
    bytes: int
    seconds: float


class Store(ABC):
    """Belongs to one event loop. Methods that read or write raise StateUnreachable.

    `shared` says whether several servers use the store, `permanent` whether it survives a restart.
    `up` is False from a failure of the store until it works again.
    """

    shared: bool
    permanent: bool
    unreachable = "The server's shared state cannot be reached; try again later."
    """The message of StateUnreachable for callers."""

    def __init__(self) -> None:
        self.up = True
        self._tasks: list[Task] = []
        self._beating: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def check(self) -> None:
        if not self.up:
            raise StateUnreachable(self.unreachable)

    def at_every_beat(self, task: Task) -> None:
        """Runs a task at the start, twice a second while the store can be reached, and at the stop.
        The task may raise StateUnreachable."""
        self._tasks.append(task)

    async def start(self) -> None:
        """Starts the beats, also if the store cannot be reached."""
        await self._beat()
        self._beating = asyncio.create_task(self._beat_forever())

    async def stop(self) -> None:
        """Runs the tasks a last time, if the store was started, and closes it."""
        if self._beating is not None:
            self._stopping.set()
            await self._beating
        await self._close()

    @abstractmethod
    async def version(self, table: str) -> str:
        """Returns the version of a table; empty for a table that was never written."""

    @abstractmethod
    async def read(self, table: str, id: str) -> bytes | None:
        """Returns a record of a table, or None."""

    @abstractmethod
    async def read_all(self, table: str) -> dict[str, bytes]:
        """Returns all records of a table."""

    @abstractmethod
    async def write(self, changes: Changes, versions: Mapping[str, str] | None = None) -> bool:
        """Stores all changes in one step. Returns False, and stores none, if a table of `versions`
        has another version."""

    @abstractmethod
    async def increase(
        self, table: str, amounts: Mapping[str, int], limits: Mapping[str, int] | None = None
    ) -> str | None:
        """Adds to the records of a table, which are decimal numbers, in one step. If one would exceed
        its limit, adds nothing and returns its id. The table keeps its version."""

    @abstractmethod
    async def find(self, collection: str, id: str, seconds: float | None = None) -> bytes | None:
        """Returns a record of a collection that has not expired, or None. `seconds` is a time limit
        for large records."""

    @abstractmethod
    async def add(
        self, collection: str, records: Sequence[tuple[str, bytes]], bounds: Bounds
    ) -> None:
        """Adds records to a collection, and deletes expired ones and those beyond the bounds."""

    async def put(
        self, collection: str, id: str, value: bytes, life: float, seconds: float | None = None
    ) -> None:
        """Stores a record for `life` seconds. `seconds` is a time limit for large records."""
        await self.add(collection, [(id, value)], Bounds(RECORDS_LIMIT, RECORDS_BYTES, life))

    async def put_patiently(
        self, collection: str, id: str, value: bytes, life: float, seconds: float | None = None
    ) -> None:
        """Does `put`, and waits while the store cannot be used."""
        while True:
            try:
                return await self.put(collection, id, value, life, seconds)
            except StateUnreachable:
                await asyncio.sleep(BEAT_SECONDS)

    async def exists(self, collection: str, id: str) -> bool:
        """Returns whether `find` would return a record."""
        return await self.find(collection, id) is not None

    @abstractmethod
    async def remove(self, collection: str, id: str) -> bool:
        """Removes a record of `put`. Returns whether it was there."""

    @abstractmethod
    async def _close(self) -> None:
        """Closes files and connections."""

    async def _beat_forever(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._stopping.wait()
            await self._beat()

    async def _beat(self) -> None:
        for task in self._tasks:
            try:
                await task()
            except StateUnreachable:
                continue  # at the next beat
            except Exception:  # a fault of one task must not end the beats
                log.exception("a task of the store failed")
