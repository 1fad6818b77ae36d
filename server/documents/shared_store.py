"""Translated files that every server of one `--state redis://` can send."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson

from server.documents.shared_files import TOKEN, SharedFiles, remove_old
from server.documents.store import REMEMBERED, FileStore, StoredFile, beyond, disk_errors, expired
from server.documents.workspace import Workspace
from server.errors import NotFound, StateUnreachable
from server.store.beats import BEAT_SECONDS

if TYPE_CHECKING:
    from server.store.redis import RedisStore

TABLE = "files:list"
"""The table of translated files: token -> name, media type, size, owner and the time of writing as JSON."""
KNOWN_SECONDS = 86_400
"""Time for which the answer for a deleted file is that it is no longer kept."""
PRUNE_SECONDS = 60.0
COPY_SECONDS = 600.0
"""Time after which the copy for a download is deleted. The response deletes it earlier, unless the client disconnected
before it began."""


class SharedFileStore:
    """Keeps each translated file for `seconds`, and at most `limit` bytes of them over all servers. Uploads in progress
    are on the disk of the server that translates them. A file that is sent is first copied to that disk."""

    def __init__(self, store: RedisStore, folder: Path | None, seconds: float, limit: int) -> None:
        self._store = store
        self._files = SharedFiles(store, folder)
        self._seconds, self._limit = seconds, limit
        self._local = FileStore(seconds, limit)
        self._copies: Path | None = None
        self._next_prune = 0.0
        store.at_every_beat(self._prune)

    def new_workspace(self, upload: bytes) -> Workspace:
        """Implements ResultStore. Raises StateUnreachable at once while the result could not be shared."""
        self._files.check(len(upload))
        if not self._store.up:
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
        info = {"name": name, "media_type": media_type, "size": size, "owner": owner, "written": time.time()}
        await self._store.write({TABLE: {token: orjson.dumps(info)}})
        await self._drop_beyond()
        return token

    async def _drop_beyond(self) -> None:
        """Deletes the files beyond the bytes. Their entries stay, for the answer that they are no longer kept."""
        infos = [(token, orjson.loads(info)) for token, info in (await self._store.read_all(TABLE)).items()]
        entries = dict(sorted(infos, key=lambda entry: entry[1]["written"]))
        now = time.time()
        old = [token for token, info in entries.items() if info["written"] < now - max(self._seconds, KNOWN_SECONDS)]
        forgotten = [*old, *list(entries)[len(old) : -REMEMBERED]]
        kept = {
            token: (info["size"], info["owner"])
            for token, info in entries.items()
            if info["written"] > now - self._seconds and not info.get("dropped")
        }
        dropped = beyond(kept, self._limit)
        await self._files.remove(*dropped)
        changes: dict[str, bytes | None] = dict.fromkeys(forgotten)
        changes |= {token: orjson.dumps(entries[token] | {"dropped": True}) for token in dropped}
        if changes:
            await self._store.write({TABLE: changes})

    async def check(self, token: str) -> None:
        """Implements ResultStore."""
        await self._info(token)
        if not await self._files.exists(token):
            raise expired(self._seconds)

    async def find(self, token: str) -> StoredFile:
        """Implements ResultStore."""
        info = await self._info(token)
        with disk_errors():
            self._copies = self._local.folder()
            copy = self._copies / f"{token}.{secrets.token_hex(8)}"
        if not await self._files.get(token, copy):
            raise expired(self._seconds)
        return StoredFile(copy, info["name"], info["media_type"], info["size"], monotonic(), "", once=True)

    async def forget(self, token: str) -> None:
        """Implements ResultStore. Raises StateUnreachable."""
        await self._store.write({TABLE: {token: None}})
        await self._files.remove(token)

    async def close(self) -> None:
        """Implements ResultStore."""
        self._copies = None
        await self._local.close()

    async def _info(self, token: str) -> dict[str, Any]:
        data = await self._store.read(TABLE, token) if TOKEN.fullmatch(token) else None
        if data is None:
            raise NotFound("There is no such file.")
        info: dict[str, Any] = orjson.loads(data)
        return info

    async def _prune(self) -> None:
        if monotonic() >= self._next_prune:
            self._next_prune = monotonic() + PRUNE_SECONDS
            if self._copies is not None:
                await asyncio.to_thread(remove_old, self._copies, time.time() - COPY_SECONDS)
            await self._files.prune(KNOWN_SECONDS)
