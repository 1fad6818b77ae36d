"""The result cache of one server: memory first, then Redis if servers share their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from server.config import Settings
from server.translation.cache.keys import KEYED_SETTINGS, cache_keys
from server.translation.cache.memory import MemoryCache
from server.translation.catalog import ModelCatalog
from server.translation.types import Translation, TranslationRequest
from server.version import server_version

if TYPE_CHECKING:
    from server.store.redis import RedisStore
    from server.translation.cache.shared import SharedCache


class ResultCache:
    """Finds and keeps translations of whole texts. `hits` and `misses` count texts. Belongs to one event loop.

    A whole text is the unit, because a hit then skips everything: the queue, segmentation, tokenizing and the workers.
    Identical sentences that are in flight at the same time are shared by the engine (`SingleFlight`). Servers with the
    same `store` share their results.
    """

    def __init__(self, settings: Settings, store: RedisStore | None) -> None:
        bounds = (settings.cache_bytes, settings.cache_seconds)
        self._server = (server_version(), *[getattr(settings, name) for name in KEYED_SETTINGS])
        self.memory = MemoryCache(*bounds)
        self.shared: SharedCache | None = None
        if store is not None:
            from server.translation.cache.shared import SharedCache  # the client of Redis is an extra

            self.shared = SharedCache(store, *bounds)
        self.hits = 0
        self.misses = 0

    def keys(self, request: TranslationRequest, catalog: ModelCatalog, computation: tuple[str, ...]) -> list[bytes]:
        """Returns the keys of the texts of a request."""
        return cache_keys(request, catalog, computation, self._server)

    async def find(self, keys: Sequence[bytes], together: bool = False) -> dict[int, Translation]:
        """Returns the translations of those keys that have one, as they were added, by position. With `together` it is
        all or none."""
        found = {}
        for number, key in enumerate(keys):
            if (translation := self.memory.find(key)) is not None:
                found[number] = translation
        if self.shared is not None and len(found) < len(keys):
            missing = [number for number in range(len(keys)) if number not in found]
            others = await self.shared.find([keys[number] for number in missing])
            for number, other in zip(missing, others, strict=True):
                if other is not None:
                    self.memory.add(keys[number], other)
                    found[number] = other
        if together and len(found) < len(keys):
            found = {}
        self.hits += len(found)
        self.misses += len(keys) - len(found)
        return found

    def add(self, keys: Sequence[bytes], translations: Sequence[Translation]) -> None:
        """Keeps translations by their keys."""
        for key, translation in zip(keys, translations, strict=True):
            self.memory.add(key, translation)
        if self.shared is not None:
            self.shared.add(keys, translations)
