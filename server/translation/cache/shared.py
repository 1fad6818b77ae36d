"""The result cache in Redis, which all servers of one `--state` share. A failure is a miss."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pydantic import TypeAdapter

from server.errors import StateUnreachable
from server.store.interface import Bounds
from server.store.redis import RedisStore
from server.translation.types import Translation

log = logging.getLogger(__name__)
NAME = "cache"
ANY_NUMBER = 2**53
LARGEST = 1_000_000
"""Bytes of JSON beyond which a translation is not shared."""
UNWRITTEN = 16_000_000
"""Bytes of JSON that may wait to be written; further translations are not shared."""
BATCH = 100
"""Translations that are written at once."""
JSON = TypeAdapter(Translation)


class SharedCache:
    """Translations of at most `limit` bytes of JSON, each for `seconds`. They are written at every beat of the store."""

    def __init__(self, store: RedisStore, limit: int, seconds: float) -> None:
        self.hits = 0
        self._store = store
        self._bounds = Bounds(ANY_NUMBER, limit, seconds)
        self._unwritten: list[tuple[str, bytes]] = []
        self._unwritten_bytes = 0
        store.at_every_beat(self.write)

    async def find(self, keys: Sequence[bytes]) -> list[Translation | None]:
        """Returns the translation of each key, or None where there is none or Redis cannot be read."""
        if not self._store.up:
            return [None] * len(keys)
        try:
            values = await self._store.find_all(NAME, [key.hex() for key in keys])
            translations = [None if value is None else JSON.validate_json(value) for value in values]
        except StateUnreachable:
            return [None] * len(keys)
        except ValueError:
            log.warning("the result cache in Redis holds a value that no server of this version wrote")
            return [None] * len(keys)
        self.hits += len(keys) - translations.count(None)
        return translations

    def add(self, keys: Sequence[bytes], translations: Sequence[Translation]) -> None:
        """Adds translations. They are dropped while Redis cannot be reached."""
        for key, translation in zip(keys, translations, strict=True):
            if not self._store.up or self._unwritten_bytes >= UNWRITTEN:
                return
            value = JSON.dump_json(translation)
            if len(value) <= LARGEST:
                self._unwritten.append((key.hex(), value))
                self._unwritten_bytes += len(value)

    async def write(self) -> None:
        """Writes the translations that wait. They are dropped where this fails."""
        records, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
        for start in range(0, len(records), BATCH):
            await self._store.add(NAME, records[start : start + BATCH], self._bounds)
