"""The result cache in Redis, which all servers of one `--state` share. A failure is a miss."""

from __future__ import annotations

import asyncio
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
JSON = TypeAdapter(Translation)


class SharedCache:
    """Translations of at most `limit` bytes of JSON, each for `seconds`. Writes are made in the background."""

    def __init__(self, store: RedisStore, limit: int, seconds: float) -> None:
        self.hits = 0
        self._store = store
        self._bounds = Bounds(ANY_NUMBER, limit, seconds)
        self._unwritten = 0
        self._writing: set[asyncio.Task[None]] = set()

    async def find(self, keys: Sequence[bytes]) -> list[Translation | None]:
        """Returns the translation of each key, or None where there is none or Redis cannot be read."""
        if not self._store.up:
            return [None] * len(keys)
        try:
            values = await self._store.find_all(NAME, [key.hex() for key in keys])
            found = [None if value is None else JSON.validate_json(value) for value in values]
        except StateUnreachable:
            return [None] * len(keys)
        except ValueError:
            log.warning("the result cache in Redis holds a value that no server of this version wrote")
            return [None] * len(keys)
        self.hits += len(keys) - found.count(None)
        return found

    def add(self, keys: Sequence[bytes], translations: Sequence[Translation]) -> None:
        """Writes translations in the background. They are dropped while Redis cannot be reached."""
        if self._store.up and self._unwritten < UNWRITTEN:
            task = asyncio.create_task(self._write(keys, translations))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def close(self) -> None:
        """Waits for the writes."""
        await asyncio.gather(*self._writing)

    async def _write(self, keys: Sequence[bytes], translations: Sequence[Translation]) -> None:
        for key, translation in zip(keys, translations, strict=True):
            value = JSON.dump_json(translation)
            if len(value) > LARGEST:
                continue
            self._unwritten += len(value)
            try:
                await self._store.add(NAME, [(key.hex(), value)], self._bounds)
            except StateUnreachable:
                return
            finally:
                self._unwritten -= len(value)
