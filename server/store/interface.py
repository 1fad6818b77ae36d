"""The interface of a store: tables of permanent records, and collections of records that expire.

A table maps ids to bytes. Every change gives it a new version, so that readers notice changes and a writer can make sure
that nobody else wrote since it read. A collection is bounded; its oldest records are deleted first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Changes = Mapping[str, Mapping[str, bytes | None]]
"""New records by table and id. None deletes a record."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a collection: number of records, their bytes, and the seconds for which each is kept."""

    size: int
    bytes: int
    seconds: float


class Store(Protocol):
    """Used in one event loop. Every method but the first ones raises StateUnreachable where the store cannot be used.

    `shared` says whether several servers use the store, `permanent` whether it survives a restart. `errors` counts failed
    operations.
    """

    shared: bool
    permanent: bool
    errors: int

    def at_every_beat(self, task: Callable[[], Awaitable[None]]) -> None:
        """Runs a task twice a second from the start on, and once more at the stop. It may raise StateUnreachable."""
        ...

    async def start(self) -> None:
        """Starts the beats. A store that cannot be reached is no error."""
        ...

    async def stop(self) -> None:
        """Runs the tasks a last time and closes the store."""
        ...

    async def version(self, table: str) -> str:
        """Returns the version of a table; empty for a table that was never written."""
        ...

    async def read(self, table: str, id: str) -> bytes | None:
        """Returns a record of a table, or None."""
        ...

    async def read_all(self, table: str) -> dict[str, bytes]:
        """Returns all records of a table."""
        ...

    async def write(self, changes: Changes, versions: Mapping[str, str] | None = None) -> bool:
        """Stores all changes as one step. Returns False, and stores none, if a table of `versions` has another version."""
        ...

    async def increase(self, table: str, amounts: Mapping[str, int], batch: str) -> None:
        """Adds to the records of a table, which are decimal numbers. A repeated call with the same `batch`, because its
        answer was lost, adds nothing. `batch` is "writer number"; the numbers of a writer grow."""
        ...

    async def find(self, collection: str, id: str) -> bytes | None:
        """Returns a record of a collection, or None if there is none or it has expired."""
        ...

    async def add(self, collection: str, records: Sequence[tuple[str, bytes]], bounds: Bounds) -> None:
        """Adds records to a collection, and deletes those that have expired or are beyond the bounds."""
        ...
