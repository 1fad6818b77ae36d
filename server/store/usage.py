"""Characters sent with each API key."""

from __future__ import annotations

from collections import Counter

from server.store.interface import Store

NAME = "usage"


class Usage:
    """Counts in memory, and adds the counts to those in the store twice a second. While the store cannot be used, they
    wait. All callers without a key have the empty id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._characters: Counter[str] = Counter()
        store.at_every_beat(self.flush)

    def add(self, key: str, characters: int) -> None:
        """Counts characters of a key."""
        self._characters[key] += characters

    async def read(self, key: str) -> int:
        """Returns the characters of a key since the first start with this store. Raises StateUnreachable."""
        return int(await self._store.read(NAME, key) or 0) + self._characters[key]

    async def flush(self) -> None:
        """Adds the counts since the last call to those in the store. Raises StateUnreachable, and keeps them."""
        if counts := self._characters.copy():
            await self._store.increase(NAME, counts)
            self._characters -= counts
