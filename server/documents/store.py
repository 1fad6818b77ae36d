"""Keeps the files of documents on disk: those in progress, and translated ones until they are fetched or expire."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import tempfile
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from server.documents.workspace import Workspace
from server.errors import ExpiredTranslation, NotFound, Unavailable

log = logging.getLogger(__name__)
REMEMBERED = 10_000
"""Number of dropped files for which the answer is that they are no longer kept."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file on disk. `name` is the file name for the download, `until` the time of expiry in seconds on the monotonic
    clock. If `once`, the file is deleted when it has been sent."""

    path: Path
    name: str
    media_type: str
    size: int
    until: float
    caller: str
    once: bool = False


class ResultStore(Protocol):
    """Keeps the uploads of documents in progress and their translations."""

    def new_workspace(self, upload: bytes) -> Workspace:
        """Returns a new folder on this machine with an upload. Raises Unavailable if it cannot be written to disk, and
        PayloadTooLarge if a file of this size cannot be kept."""
        ...

    async def keep(self, workspace: Workspace, name: str, media_type: str, caller: str, patient: bool = False) -> str:
        """Keeps the result of a workspace and returns its token. If `patient`, waits while a shared store cannot be
        reached. Raises Unavailable."""
        ...

    async def check(self, token: str) -> None:
        """Raises NotFound if the token is unknown, and ExpiredTranslation if the file is no longer kept."""
        ...

    async def find(self, token: str) -> StoredFile:
        """Returns a file. Raises the errors of `check`."""
        ...

    async def forget(self, token: str) -> None:
        """Makes a file unknown. A file that `find` returned before can still be sent, and is then
        deleted."""
        ...

    async def close(self) -> None:
        """Deletes the files on this machine."""
        ...


class FileStore:
    """Keeps each translated file for `seconds` and at most `limit` bytes of them in total: beyond that, the oldest file
    of the caller with the most bytes is deleted. Belongs to one event loop. `close` deletes all."""

    def __init__(self, seconds: float, limit: int) -> None:
        self._seconds = seconds
        self._limit = limit
        self._folder: Path | None = None
        self._files: dict[str, StoredFile] = {}
        self._dropped: OrderedDict[str, None] = OrderedDict()

    def new_workspace(self, upload: bytes) -> Workspace:
        """Implements ResultStore."""
        with disk_errors():
            workspace = Workspace(tempfile.mkdtemp(dir=self.folder()))
            try:
                workspace.upload.write_bytes(upload)
            except OSError:
                workspace.remove()
                raise
            return workspace

    def folder(self) -> Path:
        """Returns the folder of all files, and creates it at the first call. Raises OSError."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="attentive-"))
        return self._folder

    async def keep(self, workspace: Workspace, name: str, media_type: str, caller: str, patient: bool = False) -> str:
        """Implements ResultStore."""
        token = secrets.token_urlsafe(24)
        path = workspace.folder.parent / token
        with disk_errors():
            size = workspace.result.replace(path).stat().st_size
        self._files[token] = StoredFile(path, name, media_type, size, monotonic() + self._seconds, caller)
        self._prune()
        asyncio.get_running_loop().call_later(self._seconds + 1, self._prune)
        return token

    async def check(self, token: str) -> None:
        """Implements ResultStore."""
        await self.find(token)

    async def find(self, token: str) -> StoredFile:
        """Implements ResultStore."""
        self._prune()
        if (found := self._files.get(token)) is not None:
            return found
        if token in self._dropped:
            raise expired(self._seconds)
        raise NotFound("There is no such file.")

    async def forget(self, token: str) -> None:
        """Implements ResultStore."""
        self._files.pop(token, None)

    async def close(self) -> None:
        """Implements ResultStore."""
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _prune(self) -> None:
        now = monotonic()
        for token in [token for token, file in self._files.items() if file.until <= now]:
            self._drop(token)
        for token in beyond({token: (file.size, file.caller) for token, file in self._files.items()}, self._limit):
            self._drop(token)

    def _drop(self, token: str) -> None:
        self._files.pop(token).path.unlink(missing_ok=True)
        self._dropped[token] = None
        if len(self._dropped) > REMEMBERED:
            self._dropped.popitem(last=False)


def beyond(files: Mapping[str, tuple[int, str]], limit: int) -> list[str]:
    """Returns the tokens of the files to delete, so that the others have at most `limit` bytes: the oldest ones of the
    caller with the most bytes. `files` has the size and the caller of each token, oldest first. One file always stays."""
    held: Counter[str] = Counter()
    tokens: dict[str, deque[str]] = defaultdict(deque)
    for token, (size, caller) in files.items():
        held[caller] += size
        tokens[caller].append(token)
    dropped: list[str] = []
    while held.total() > limit and len(dropped) < len(files) - 1:
        [(largest, _)] = held.most_common(1)
        dropped.append(tokens[largest].popleft())
        held[largest] -= files[dropped[-1]][0]
    return dropped


def expired(seconds: float) -> ExpiredTranslation:
    """Returns the error for a file that was kept for `seconds` and is no longer there."""
    return ExpiredTranslation(
        f"The translated file is no longer kept; translate it again and fetch it within {seconds:,.0f} seconds."
    )


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turns an OSError into Unavailable, and logs its reason."""
    try:
        yield
    except OSError as error:
        log.warning("a file cannot be kept: %s", error.strerror)
        raise Unavailable("The file cannot be kept: the disk is full or not writable.", 60) from error
