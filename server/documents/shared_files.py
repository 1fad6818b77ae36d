"""Files that several servers share: in Redis up to a size, beyond it in a folder that all of them mount."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from model.atomic_write import atomic_write
from server.documents.store import disk_errors
from server.errors import PayloadTooLarge

if TYPE_CHECKING:
    from server.store.redis import RedisStore

NAME = "files"
IN_REDIS = 5_000_000
"""Bytes of the largest upload that is kept in Redis."""
RESULT_FACTOR = 4
"""A translated file in Redis may have this many times the bytes of the largest upload, because other scripts need more
bytes per letter."""
TRANSFER_SECONDS = 10.0
"""Longest time to send or receive one file."""
TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")


class SharedFiles:
    """Files by their tokens. `folder` is for files that are too large for Redis."""

    def __init__(self, store: RedisStore, folder: Path | None) -> None:
        self._store = store
        self._folder = folder

    def check(self, size: int) -> None:
        """Raises PayloadTooLarge for an upload that cannot be kept."""
        if size > IN_REDIS and self._folder is None:
            raise PayloadTooLarge(f"The file's {size:,} bytes are over the limit of {IN_REDIS:,} bytes of this server.")

    async def put(self, token: str, path: Path, seconds: float) -> None:
        """Copies a file to where all servers find it for `seconds`. Raises StateUnreachable, Unavailable for a full
        disk, or PayloadTooLarge."""
        with disk_errors():
            size = (await asyncio.to_thread(path.stat)).st_size
            if self._folder is not None and size > IN_REDIS:
                await asyncio.to_thread(_copy, path, self._folder / token)
                return
            if size > RESULT_FACTOR * IN_REDIS:
                raise PayloadTooLarge("The translated file is too large to be shared by the servers; split the file.")
            content = await asyncio.to_thread(path.read_bytes)
        await self._store.put(NAME, token, content, seconds, TRANSFER_SECONDS)

    async def get(self, token: str, path: Path) -> bool:
        """Writes a file to `path`, and returns False if it is no longer kept. Raises StateUnreachable, or
        Unavailable if the folder cannot be read."""
        content = await self._store.find(NAME, token, TRANSFER_SECONDS)
        with disk_errors():
            if content is not None:
                await asyncio.to_thread(path.write_bytes, content)
                return True
            if self._folder is None:
                return False
            try:
                await asyncio.to_thread(_copy, self._folder / token, path)
            except FileNotFoundError:
                return False
            return True

    async def exists(self, token: str) -> bool:
        """Returns whether a file is kept. Raises StateUnreachable."""
        if await self._store.exists(NAME, token):
            return True
        return self._folder is not None and await asyncio.to_thread((self._folder / token).exists)

    async def remove(self, *tokens: str) -> None:
        """Deletes files. Raises StateUnreachable."""
        for token in tokens:
            if self._folder is not None:
                await asyncio.to_thread((self._folder / token).unlink, missing_ok=True)
            await self._store.remove(NAME, token)

    async def prune(self, seconds: float) -> None:
        """Deletes the files of the folder that are older than `seconds`: Redis deletes its own."""
        if self._folder is not None:
            await asyncio.to_thread(remove_old, self._folder, time.time() - seconds)


def _copy(source: Path, target: Path) -> None:
    """Copies a file; the copy has its name only when it is complete."""
    with atomic_write(target) as part, source.open("rb") as content, part.open("xb") as copy:
        part.chmod(0o600)
        shutil.copyfileobj(content, copy, 1 << 20)


def remove_old(folder: Path, before: float) -> None:
    """Deletes the files of a folder that have a token as their name and were last changed before a time."""
    for path in folder.iterdir():
        if TOKEN.fullmatch(path.name.partition(".")[0]):
            try:
                if path.stat().st_mtime < before:
                    path.unlink()
            except FileNotFoundError:  # another server was faster
                continue
