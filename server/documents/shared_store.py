"""Translated files that every server of one `--state redis://` can send."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from pathlib import Path
from time import monotonic

import orjson

from server.documents.shared_files import PREFIX, TOKEN, SharedFiles, remove_old
from server.documents.store import FileStore, StoredFile, disk_errors, expired
from server.documents.workspace import Workspace
from server.errors import NotFound, StateUnreachable
from server.store.beats import BEAT_SECONDS
from server.store.redis import RedisStore
from server.store.redis_connection import Script

INDEX = PREFIX + "index"
"""A sorted set of "token bytes caller", one entry per translated file, scored by the time of writing in milliseconds."""
KNOWN_SECONDS = 86_400
"""Time for which the answer for a deleted file is that it is no longer kept."""
PRUNE_SECONDS = 60.0
COPY_SECONDS = 600.0
"""Time after which the copy for a download is deleted. The response deletes it earlier, unless the client disconnected
before it began."""

KEEP = Script("""
local limit, life, token, size, caller = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - life)
redis.call('ZADD', KEYS[1], now, token .. ' ' .. size .. ' ' .. caller)
redis.call('PEXPIRE', KEYS[1], life)
redis.call('SET', ARGV[6] .. 'meta:' .. token, ARGV[7], 'PX', life + tonumber(ARGV[8]))
local entries, held, total = redis.call('ZRANGE', KEYS[1], 0, -1), {}, 0
for _, entry in ipairs(entries) do
  local bytes, owner = string.match(entry, ' (%d+) (%S+)$')
  held[owner] = (held[owner] or 0) + tonumber(bytes)
  total = total + tonumber(bytes)
end
local dropped = {}
while total > limit and #entries > 1 do
  local largest = nil
  for owner, bytes in pairs(held) do
    if not largest or bytes > held[largest] then largest = owner end
  end
  for place, entry in ipairs(entries) do
    local name, bytes, owner = string.match(entry, '^(%S+) (%d+) (%S+)$')
    if owner == largest then
      redis.call('ZREM', KEYS[1], entry)
      held[owner] = held[owner] - tonumber(bytes)
      total = total - tonumber(bytes)
      table.insert(dropped, name)
      table.remove(entries, place)
      break
    end
  end
end
return dropped
""")
"""Adds a file to the index and removes the oldest ones of the caller with the most bytes, beyond the bound."""


class SharedFileStore:
    """Keeps each translated file for `seconds`, and at most `limit` bytes of them over all servers. Uploads in progress
    are on the disk of the server that translates them. A file that is sent is first copied to that disk."""

    def __init__(self, state: RedisStore, files: SharedFiles, seconds: float, limit: int) -> None:
        self._state = state
        self._files = files
        self._seconds, self._limit = seconds, limit
        self._local = FileStore(seconds, limit)
        self._copies: Path | None = None
        self._next_prune = 0.0
        state.at_every_beat(self._prune)

    def new_workspace(self, upload: bytes) -> Workspace:
        """Implements ResultStore. Raises StateUnreachable at once while the result could not be shared."""
        self._files.check(len(upload))
        if not self._state.up:
            raise StateUnreachable
        return self._local.new_workspace(upload)

    async def keep(self, workspace: Workspace, name: str, media_type: str, caller: str, patient: bool = False) -> str:
        """Implements ResultStore."""
        while True:
            try:
                return await self._keep(workspace.result, name, media_type, caller)
            except StateUnreachable:
                if not patient:
                    raise
                await asyncio.sleep(BEAT_SECONDS)

    async def _keep(self, path: Path, name: str, media_type: str, caller: str) -> str:
        token = secrets.token_urlsafe(24)
        size = (await asyncio.to_thread(path.stat)).st_size
        await self._files.put(token, path, self._seconds)
        owner = hashlib.sha256(caller.encode()).hexdigest()[:16]
        meta = orjson.dumps({"name": name, "media_type": media_type, "size": size, "owner": owner})
        life = round(1000 * self._seconds)
        dropped = await self._state.evaluate(
            KEEP, [INDEX], self._limit, life, token, size, owner, PREFIX, meta, 1000 * KNOWN_SECONDS
        )
        await self._files.remove(*[name.decode() for name in dropped])
        return token

    async def check(self, token: str) -> None:
        """Implements ResultStore."""
        await self._meta(token)
        if not await self._files.exists(token):
            raise expired(self._seconds)

    async def find(self, token: str) -> StoredFile:
        """Implements ResultStore."""
        meta = await self._meta(token)
        with disk_errors():
            self._copies = self._local.folder()
            copy = self._copies / f"{token}.{secrets.token_hex(8)}"
        if not await self._files.get(token, copy):
            raise expired(self._seconds)
        return StoredFile(copy, meta["name"], meta["media_type"], int(meta["size"]), monotonic(), "", once=True)

    async def forget(self, token: str) -> None:
        """Implements ResultStore. Raises StateUnreachable."""
        with contextlib.suppress(NotFound):
            meta = await self._meta(token)
            await self._state.execute("ZREM", INDEX, f"{token} {meta['size']} {meta.get('owner')}")
        await self._state.execute("UNLINK", f"{PREFIX}meta:{token}")
        await self._files.remove(token)

    async def close(self) -> None:
        """Implements ResultStore."""
        self._copies = None
        await self._local.close()

    async def _meta(self, token: str) -> dict[str, str]:
        value = await self._state.execute("GET", f"{PREFIX}meta:{token}") if TOKEN.fullmatch(token) else None
        if value is None:
            raise NotFound("There is no such file.")
        meta: dict[str, str] = orjson.loads(value)
        return meta

    async def _prune(self) -> None:
        if monotonic() >= self._next_prune:
            self._next_prune = monotonic() + PRUNE_SECONDS
            if self._copies is not None:
                await asyncio.to_thread(remove_old, self._copies, time.time() - COPY_SECONDS)
            await self._files.prune(KNOWN_SECONDS)
