"""Keeps the files of documents on disk: those in progress, and translated ones until they are fetched or expire."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from server.documents.document import Workspace
from server.errors import ExpiredTranslation, NotFound, Unavailable

log = logging.getLogger(__name__)
TOKEN = re.compile(r"([0-9a-f]{8})[A-Za-z0-9_-]{32}")
"""The time at which a file was kept, in seconds since the epoch, and 192 random bits."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A translated file. `name` is the file name for the download, and `content` the path of the file, or its bytes. If
    `once`, a file with a path is deleted when it has been sent."""

    name: str
    media_type: str
    content: Path | bytes
    once: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What counts against the bytes of a store. `until` is the time of expiry in seconds on the monotonic clock."""

    until: float
    size: int
    caller: str


class FileStore:
    """Keeps each translated file for `seconds` and at most `limit` bytes of those that this server has translated: beyond
    that, the oldest file of the caller with the most bytes is deleted. Belongs to one event loop. `close` deletes the files
    on this machine."""

    def __init__(self, seconds: float, limit: int) -> None:
        self._seconds = seconds
        self._limit = limit
        self._folder: Path | None = None
        self._entries: dict[str, Entry] = {}
        self._files: dict[str, StoredFile] = {}

    def new_workspace(self, upload: bytes) -> Workspace:
        """Returns a new folder on this machine with an upload. Raises Unavailable if it cannot be written to disk, and
        PayloadTooLarge if a file of this size cannot be kept."""
        with disk_errors():
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="attentive-"))
            workspace = Workspace(tempfile.mkdtemp(dir=self._folder))
            try:
                workspace.upload.write_bytes(upload)
            except OSError:
                workspace.remove()
                raise
            return workspace

    async def keep(self, workspace: Workspace, name: str, media_type: str, caller: str, patient: bool = False) -> str:
        """Keeps the result of a workspace and returns its token. If `patient`, waits while a shared store cannot be
        reached. Raises Unavailable."""
        token = f"{int(time.time()):08x}{secrets.token_urlsafe(24)}"
        with disk_errors():
            size = workspace.result.stat().st_size
            await self._put(token, workspace, name, media_type, patient)
        self._entries[token] = Entry(monotonic() + self._seconds, size, caller)
        await self.prune()
        return token

    async def check(self, token: str) -> None:
        """Raises NotFound if the token is unknown, and ExpiredTranslation if the file is no longer kept."""
        await self.find(token)

    async def find(self, token: str) -> StoredFile:
        """Returns a file. Raises the errors of `check`."""
        await self.prune()
        return self._files.get(token) or self._missing(token)

    async def forget(self, token: str) -> None:
        """Makes a file unknown. A file that `find` returned before can still be sent."""
        self._entries.pop(token, None)
        self._files.pop(token, None)

    async def prune(self) -> None:
        """Deletes the files of this server that have expired, and those beyond the bytes; one file always stays."""
        now = monotonic()
        for token in [token for token, entry in self._entries.items() if entry.until <= now]:
            await self._drop(token)
        while len(self._entries) > 1:
            held: Counter[str] = Counter()
            for entry in self._entries.values():
                held[entry.caller] += entry.size
            if held.total() <= self._limit:
                break
            [(largest, _)] = held.most_common(1)
            await self._drop(next(token for token, entry in self._entries.items() if entry.caller == largest))

    async def close(self) -> None:
        """Deletes the files on this machine."""
        self._entries.clear()
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def _put(self, token: str, workspace: Workspace, name: str, media_type: str, patient: bool) -> None:
        path = workspace.result.replace(workspace.folder.parent / token)
        self._files[token] = StoredFile(name, media_type, path)

    async def _drop(self, token: str) -> None:
        self._entries.pop(token, None)
        if (file := self._files.pop(token, None)) and isinstance(file.content, Path):
            file.content.unlink(missing_ok=True)

    def _missing(self, token: str) -> StoredFile:
        """Raises ExpiredTranslation for a token that was issued, and NotFound for another text."""
        match = TOKEN.fullmatch(token)
        if match is None or int(match[1], 16) > time.time():
            raise NotFound("There is no such file.")
        raise ExpiredTranslation(
            f"The translated file is no longer kept; translate it again and fetch it within {self._seconds:,.0f} seconds."
        )


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turns an OSError into Unavailable, and logs its reason."""
    try:
        yield
    except OSError as error:
        log.warning("a file cannot be kept: %s", error.strerror)
        raise Unavailable("The file cannot be kept: the disk is full or not writable.", 60) from error
