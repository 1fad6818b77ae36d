"""Characters sent with each API key."""

from __future__ import annotations

from collections import Counter

from server.errors import StateUnreachable
from server.store.interface import Store

NAME = "usage"


class Usage:
    """Counts in memory, and adds the counts to those in the store twice a second. While the store cannot be used, they
    wait. All callers without a key have the empty id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._characters: Counter[str] = Counter()
        self._writing: Counter[str] = Counter()
        store.at_every_beat(self.flush)

    def add(self, key: str, characters: int) -> None:
        """Counts characters of a key."""
        self._characters[key] += characters

    async def read(self, key: str) -> int:
        """Returns the characters of a key since the first start with this store. Raises StateUnreachable."""
        try:
            stored = await self._store.read(NAME, key)
        except StateUnreachable:
            raise StateUnreachable("The usage cannot be read now; try again later.") from None
        return int(stored or 0) + self._writing[key] + self._characters[key]

    async def flush(self) -> None:
        """Adds the counts since the last call to those in the store. Raises StateUnreachable, and keeps them."""
        self._writing, self._characters = self._characters, Counter()
        try:
            if self._writing:
                await self._store.increase(NAME, self._writing)
        except StateUnreachable:
            self._characters += self._writing
            raise
        finally:
            self._writing = Counter()
