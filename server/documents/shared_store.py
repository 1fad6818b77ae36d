"""Translated files that every server of one `--state redis://` can send: in Redis up to a size, beyond it in a folder that
all servers mount."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from model.atomic_write import atomic_write
from server.config import Settings, flag_and_variable
from server.documents.document import Workspace
from server.documents.store import TOKEN, FileStore, StoredFile, disk_errors
from server.errors import PayloadTooLarge, SettingsError, StateUnreachable
from server.store.interface import BEAT_SECONDS

if TYPE_CHECKING:
    from server.store.redis import RedisStore

NAME = "files"
IN_REDIS = 5_000_000
"""Bytes of the largest upload whose translation is kept in Redis."""
RESULT_FACTOR = 4
"""A translated file in Redis may have this many times the bytes of the largest upload, because other scripts need more
bytes per letter."""
TRANSFER_SECONDS = 10.0
"""Longest time to send or receive one file."""


class SharedFileStore(FileStore):
    """Keeps translated files in Redis, or in `folder` if they are too large. A record in Redis is the name and the media
    type as a line of JSON, then the content of a file that is not in the folder. Uploads in progress are on the disk of
    the server that translates them. All methods raise StateUnreachable."""

    def __init__(self, store: RedisStore, folder: Path | None, seconds: float, limit: int) -> None:
        super().__init__(seconds, limit)
        self._store = store
        self._shared_folder = folder

    def new_workspace(self, upload: bytes) -> Workspace:
        """Raises StateUnreachable at once while the result could not be shared."""
        if (size := len(upload)) > IN_REDIS and self._shared_folder is None:
            raise PayloadTooLarge(f"The file's {size:,} bytes are over the limit of {IN_REDIS:,} bytes of this server.")
        if not self._store.up:
            raise StateUnreachable
        return super().new_workspace(upload)

    async def check(self, token: str) -> None:
        if not TOKEN.fullmatch(token) or not await self._store.exists(NAME, token):
            self._missing(token)

    async def find(self, token: str) -> StoredFile:
        record = await self._store.find(NAME, token, TRANSFER_SECONDS) if TOKEN.fullmatch(token) else None
        if record is None:
            return self._missing(token)
        head, _, content = record.partition(b"\n")
        name, media_type, in_folder = orjson.loads(head)
        if not in_folder or self._shared_folder is None:
            return StoredFile(name, media_type, content)
        path = self._shared_folder / token
        return StoredFile(name, media_type, path) if await asyncio.to_thread(path.exists) else self._missing(token)

    async def forget(self, token: str) -> None:
        await super().forget(token)
        await self._store.remove(NAME, token)

    async def _put(self, token: str, workspace: Workspace, name: str, media_type: str, patient: bool) -> None:
        path, content = workspace.result, b""
        size = (await asyncio.to_thread(path.stat)).st_size
        in_folder = self._shared_folder is not None and size > IN_REDIS
        if self._shared_folder is not None and in_folder:
            await asyncio.to_thread(copy, path, self._shared_folder / token)
            await asyncio.to_thread(remove_old, self._shared_folder, time.time() - self._seconds)
        elif size > RESULT_FACTOR * IN_REDIS:
            raise PayloadTooLarge("The translated file is too large to be shared by the servers; split the file.")
        else:
            content = await asyncio.to_thread(path.read_bytes)
        record = orjson.dumps((name, media_type, in_folder)) + b"\n" + content
        while True:
            try:
                return await self._store.put(NAME, token, record, self._seconds, TRANSFER_SECONDS)
            except StateUnreachable:
                if not patient:
                    raise
                await asyncio.sleep(BEAT_SECONDS)

    async def _drop(self, token: str) -> None:
        self._entries.pop(token, None)
        with disk_errors():
            if self._shared_folder is not None:
                await asyncio.to_thread((self._shared_folder / token).unlink, missing_ok=True)
        with contextlib.suppress(StateUnreachable):  # the record expires
            await self._store.remove(NAME, token)


def copy(source: Path, target: Path) -> None:
    """Copies a file; the copy has its name only when it is complete."""
    with atomic_write(target) as part:
        part.touch(0o600)
        shutil.copyfile(source, part)


def remove_old(folder: Path, before: float) -> None:
    """Deletes the files of a folder that were kept before a time: a server that was killed has left its own."""
    for path in folder.iterdir():
        if (match := TOKEN.match(path.name)) and int(match[1], 16) < before:
            path.unlink(missing_ok=True)


def open_store(settings: Settings, store: RedisStore | None) -> FileStore:
    """Returns the store of translated files. Raises SettingsError for a shared folder that cannot be used."""
    bounds = (settings.file_keep_seconds, settings.file_keep_bytes)
    folder = settings.file_folder
    if folder is not None and (store is None or not folder.is_dir()):
        reason = (
            "needs --state redis://host:port" if store is None else f"must be a folder, and {str(folder)!r} is none"
        )
        raise SettingsError(f"{flag_and_variable('file_folder')} {reason}.")
    return FileStore(*bounds) if store is None else SharedFileStore(store, folder, *bounds)
