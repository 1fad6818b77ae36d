"""Characters sent with each API key."""

from __future__ import annotations

from collections import Counter


class Usage:
    """Characters since the start of this server, by the id of the key."""

    def __init__(self) -> None:
        self._characters: Counter[str] = Counter()

    def add(self, key: str, characters: int) -> None:
        """Counts characters of a key; all callers without one are the empty id."""
        self._characters[key] += characters

    async def read(self, key: str) -> int:
        """Returns the characters of a key."""
        return self._characters[key]

    async def close(self) -> None:
        """Stores the counts, where they are kept over a restart."""
