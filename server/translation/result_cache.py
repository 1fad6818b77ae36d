"""The result cache: translations of whole texts in memory, and in Redis for all servers of one
`--state`.

A key is the SHA-256 of a text and of everything that its translation depends on: the models, how
the workers compute, the version of the server, and all fields of the request but NOT_KEYED.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter
from sys import getsizeof
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from server import server_version
from server.config import Settings
from server.errors import StateUnreachable
from server.kept import kept
from server.store.interface import Bounds
from server.translation.catalog import AUTO, ModelCatalog
from server.translation.types import Translation, TranslationRequest

if TYPE_CHECKING:
    from server.store.redis import RedisStore  # the client of Redis is an extra

log = logging.getLogger(__name__)
NOT_KEYED = frozenset({"texts", "client", "weight", "deadline", "remember", "storage", "key"})
"""Fields that do not change the translation of a text."""
_SPECIAL = frozenset({"accepted", "glossary"})
"""Fields that `ResultCache.keys` adds in another form."""
KEYED_SETTINGS = ("slots", "shortlist")
"""Settings that can change translations. Few slots do not allow the wide beam of a retry."""
_plain_values = attrgetter(
    *[field.name for field in fields(TranslationRequest) if field.name not in NOT_KEYED | _SPECIAL]
)
_ENTRY, _SENTENCE, _NUMBER = 700, 300, 40
"""Bytes of an entry without its sentences, of a sentence with its hypotheses, and of a number in a
tuple."""
NOTED = 50_000
"""Most keys of answered requests."""
MOST_SENTENCES = 5_000
"""Most sentences of a translation in the cache."""
NAME = "cache"
LARGEST, UNWRITTEN = 1_000_000, 16_000_000
"""Most bytes of JSON of a shared translation, and of all that wait to be written to Redis."""
BATCH = 100
JSON = TypeAdapter(Translation)


class ResultCache:
    """Keeps translations for `cache_seconds` on the monotonic `clock`, and drops the least recently
    used one beyond about `cache_bytes`, divided by the number of `processes`. `hits` and `misses`
    count texts. Belongs to one event loop.

    Servers with the same `store` share their results, which are written at every beat of the store.
    A failure of the store is a miss.
    """

    def __init__(
        self,
        settings: Settings,
        store: RedisStore | None,
        clock: Callable[[], float] = time.monotonic,
        processes: int = 1,
    ) -> None:
        self.hits = self.misses = self.shared_hits = 0
        self.bytes = 0
        self._server = (server_version(), *[getattr(settings, name) for name in KEYED_SETTINGS])
        self._limit, self._redis_limit = settings.cache_bytes // processes, settings.cache_bytes
        self._seconds, self._clock = settings.cache_seconds, clock
        self._answered: set[int | None] = set()
        self._entries: OrderedDict[bytes, tuple[float, int, Translation]] = OrderedDict()
        self._store = store
        self._unwritten: list[tuple[str, bytes]] = []
        self._unwritten_bytes = 0
        if store is not None:
            store.at_every_beat(partial(self._write, store))

    def note(self, key: int | None) -> None:
        """Remembers that a request with this key (`TranslationRequest.key`) was answered."""
        if len(self._answered) >= NOTED:
            self._answered.clear()
        self._answered.add(key)

    def noted(self, key: int) -> bool:
        """Returns whether a request with this key was answered, and may be in the cache."""
        return key in self._answered

    def keys(
        self, request: TranslationRequest, catalog: ModelCatalog, computation: tuple[str, ...]
    ) -> list[bytes]:
        """Returns a key for each text. `computation` is that of the workers."""
        glossary = request.glossary.fingerprint if request.glossary is not None else None
        values = [self._server, catalog.fingerprint, computation, glossary, _plain_values(request)]
        auto = request.source.strip().lower() == AUTO
        common = _hash_of(*values, auto and request.accepted).copy()
        if auto and len(request.texts) > 1:  # they are evidence for each other
            common.update(repr(request.texts).encode())
        keys = []
        for text in request.texts:
            key = common.copy()
            key.update(text.encode("utf-8", "surrogatepass"))
            keys.append(key.digest())
        return keys

    async def find(self, keys: Sequence[bytes], together: bool = False) -> dict[int, Translation]:
        """Returns the cached translations by position; all or none if `together`."""
        cached: dict[int, Translation] = {}
        for number, key in enumerate(keys):
            if entry := self._entries.get(key):
                if entry[0] <= self._clock():
                    self._remove(key)
                else:
                    self._entries.move_to_end(key)
                    cached[number] = entry[2]
        if self._store is not None and self._store.up and len(cached) < len(keys):
            cached |= await self._shared(
                self._store, {n: key for n, key in enumerate(keys) if n not in cached}
            )
        if together and len(cached) < len(keys):
            cached = {}
        self.hits += len(cached)
        self.misses += len(keys) - len(cached)
        return cached

    async def _shared(self, store: RedisStore, keys: dict[int, bytes]) -> dict[int, Translation]:
        """Returns the translations in Redis by position, and keeps them in memory."""
        try:
            values = await store.find_all(NAME, [key.hex() for key in keys.values()])
            shared = {
                n: JSON.validate_json(value)
                for n, value in zip(keys, values, strict=True)
                if value is not None
            }
        except StateUnreachable:
            return {}
        except ValueError:
            log.warning(
                "the result cache in Redis holds a value that no server of this version wrote"
            )
            return {}
        self.shared_hits += len(shared)
        for number, translation in shared.items():
            self._keep(keys[number], translation)
        return shared

    def add(self, keys: Sequence[bytes], translations: Sequence[Translation]) -> None:
        """Keeps translations. They are not shared while Redis cannot be reached."""
        for key, translation in zip(keys, translations, strict=True):
            if sum([len(leg.sentences) for leg in translation.legs]) > MOST_SENTENCES:
                continue
            self._keep(key, translation)
            if self._store is not None and self._store.up and self._unwritten_bytes < UNWRITTEN:
                value = JSON.dump_json(translation, exclude_defaults=True)
                if len(value) <= LARGEST:
                    self._unwritten.append((key.hex(), value))
                    self._unwritten_bytes += len(value)

    async def _write(self, store: RedisStore) -> None:
        """Writes the waiting translations to Redis. They are dropped if this fails."""
        records, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
        bounds = Bounds(2**53, self._redis_limit, self._seconds)
        for start in range(0, len(records), BATCH):
            await store.add(NAME, records[start : start + BATCH], bounds)

    def _keep(self, key: bytes, translation: Translation) -> None:
        if key in self._entries:
            self._remove(key)
        size, now = size_of(translation), self._clock()
        self._entries[key] = (now + self._seconds, size, translation)
        self.bytes += size
        while self._entries:
            oldest = next(iter(self._entries))
            if self.bytes <= self._limit and self._entries[oldest][0] > now:
                return
            self._remove(oldest)

    def _remove(self, key: bytes) -> None:
        self.bytes -= self._entries.pop(key)[1]


@kept(256)
def _hash_of(*values: object) -> hashlib._Hash:
    return hashlib.sha256(f"{values!r}\n".encode())  # repr has escaped line ends and surrogates


def size_of(translation: Translation) -> int:
    """Returns the approximate bytes of a translation in memory."""
    texts = [translation.text, *translation.alternatives, *[leg.text for leg in translation.legs]]
    total = _ENTRY
    for sentence in [sentence for leg in translation.legs for sentence in leg.sentences]:
        texts += (sentence.source, sentence.read, *sentence.targets)
        scores = [
            len(hypothesis.tokens) + len(hypothesis.token_scores)
            for hypothesis in sentence.hypotheses
        ]
        total += _SENTENCE + _NUMBER * (len(sentence.ids) + sum(scores))
    return total + sum(map(getsizeof, texts))
