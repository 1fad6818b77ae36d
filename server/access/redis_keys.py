"""API keys in Redis, shared by several servers. Only the SHA-256 of a secret is stored.

Each server keeps all valid keys in memory and polls a version, which changes with every change of a key. So the usual
request needs no round trip, known keys work without Redis, and a revocation is seen within a second.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Unpack

from redis.asyncio import Redis

from server.access.api_keys import Key, KeyOptions, digest, new_key
from server.errors import SettingsError, StateUnreachable
from server.state.redis import RedisState

log = logging.getLogger(__name__)
KEYS = "attentive:keys:1"
"""A hash: digest of the secret -> key as JSON, revoked ones included."""
VERSION = KEYS + ":version"
"""A random text that changes with KEYS."""
LIMIT = 10_000
"""Most keys, because every server keeps them in memory."""
COMMAND_SECONDS = 5.0
"""Time limit of operations that no request waits for."""


class RedisKeys:
    """The keys of all servers of one Redis. `find` and `in_use` answer from memory.

    The other methods raise StateUnreachable where Redis cannot be reached.
    """

    def __init__(self, state: RedisState) -> None:
        self._state = state
        self._by_digest: dict[str, Key] = {}
        self._version: str | None = None
        self._loaded = False
        state.at_every_beat(self.refresh)

    @property
    def in_use(self) -> bool:
        """Whether there is a valid key. Also True while the keys were never read."""
        return bool(self._by_digest) or not self._loaded

    def find(self, secret: str) -> Key | None:
        """Returns the valid key of a secret that this server knows, or None."""
        return self._by_digest.get(digest(secret))

    async def look_up(self, secret: str) -> Key | None:
        """Returns the valid key of a secret that this server does not know yet, such as one created a moment ago."""
        try:
            if not self._loaded:
                await self.load()
                return self.find(secret)
            known = self._by_digest
            text = await self._state.execute("HGET", KEYS, digest(secret))
        except StateUnreachable:
            raise StateUnreachable(
                "This API key cannot be checked now, because the server's shared state cannot be reached; try again later."
            ) from None
        key = parse(text) if text is not None else None
        if key is None or key.revoked is not None:
            return None
        # Not in `_by_digest`: if it was read again meanwhile, it may know that this key is revoked.
        known[key.digest] = key
        return key

    async def load(self) -> None:
        """Reads the keys if they were never read."""
        if not self._loaded:
            await self.refresh()

    async def refresh(self) -> None:
        """Reads all keys if they have changed."""
        version = await self._state.execute("GET", VERSION)
        if self._loaded and version == self._version:
            return
        keys = await self.all()
        self._by_digest = {key.digest: key for key in keys if key.revoked is None}
        self._version, self._loaded = version, True

    async def all(self) -> list[Key]:
        """Returns all keys, revoked ones included, oldest first."""
        entries: dict[bytes, bytes] = await self._state.run(read_all, COMMAND_SECONDS)
        return sorted(filter(None, map(parse, entries.values())), key=lambda key: (key.created, key.id))

    async def create(self, name: str, **options: Unpack[KeyOptions]) -> tuple[str, Key]:
        """Creates a key as KeyFile does."""
        secret, key = new_key(name, **options)
        await self.add([key])
        return secret, key

    async def add(self, keys: Sequence[Key]) -> None:
        """Stores keys. A key that is revoked on either side is revoked. Raises SettingsError beyond LIMIT keys."""
        known = {key.digest: key for key in await self.all()}
        changed = {key.digest: key for key in keys if known.get(key.digest) is None or key.revoked is not None}
        if len(known | changed) > LIMIT:
            raise SettingsError(f"There are {len(known):,} API keys; {LIMIT:,} is the limit.")
        await self._store(changed)

    async def revoke(self, id: str) -> Key | None:
        """Revokes a key and returns it, or returns None where no valid key has this id."""
        found = next((key for key in await self.all() if key.id == id and key.revoked is None), None)
        if found is not None:
            await self._store({found.digest: dataclasses.replace(found, revoked=time.time())})
        return found

    async def _store(self, keys: Mapping[str, Key]) -> None:
        entries = {digest: json.dumps(dataclasses.asdict(key)) for digest, key in keys.items()}
        if not entries:
            return

        def operation(client: Redis) -> Awaitable[object]:
            pipeline: Any = client.pipeline(transaction=True)
            pipeline.hset(KEYS, mapping=entries)
            pipeline.set(VERSION, secrets.token_hex(8))
            answer: Awaitable[object] = pipeline.execute()
            return answer

        await self._state.run(operation, COMMAND_SECONDS)


def read_all(client: Redis) -> Awaitable[dict[bytes, bytes]]:
    """Reads all entries of KEYS."""
    entries: Any = client.hgetall(KEYS)
    answer: Awaitable[dict[bytes, bytes]] = entries
    return answer


def parse(text: bytes) -> Key | None:
    """Returns the key of an entry, or None for an entry that `attentive keys` did not write."""
    try:
        return Key(**json.loads(text))
    except (ValueError, TypeError):
        log.error("an API key in Redis is damaged; it is not valid")
        return None
