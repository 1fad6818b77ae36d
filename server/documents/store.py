"""Keeps the files of documents in progress on disk, and translated files until they are fetched or
expire. With `--state redis://` every server can send a translated file."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import NamedTuple, NoReturn

import orjson

from model.atomic_write import atomic_write
from server.config import Settings, flag_and_variable
from server.documents.document import Workspace
from server.errors import (
    ExpiredTranslation,
    NotFound,
    PayloadTooLarge,
    SettingsError,
    StateUnreachable,
    Unavailable,
    remedy,
)
from server.store.interface import Store

log = logging.getLogger(__name__)
NAME = "files"
TOKEN = re.compile(r"([0-9a-f]{8})[A-Za-z0-9_-]{32}")
"""The time in seconds since the epoch, and 192 random bits."""
IN_REDIS = 5_000_000
"""Bytes of the largest upload whose translation is kept in Redis."""
RESULT_FACTOR = 4
"""A translated file in Redis has at most this factor times IN_REDIS bytes: some scripts need more
bytes a letter."""
TRANSFER_SECONDS = 10.0
"""Longest time to send or receive one file."""


class Entry(NamedTuple):
    """A file that is kept until a time on the monotonic clock."""

    until: float
    size: int
    caller: str


class StoredFile(NamedTuple):
    """A translated file. `name` is the file name for the download, `content` its path or its bytes.
    If `once`, a file with a path is deleted when it has been sent."""

    name: str
    media_type: str
    content: Path | bytes
    once: bool = False


class FileStore:
    """Keeps each translated file for `seconds`. Beyond `limit` bytes of files of this server, the
    oldest file of the caller with the most bytes is deleted. Belongs to one event loop.

    The record of a file is its name and media type as a line of JSON. In Redis its content follows;
    a file over IN_REDIS is in the `shared` folder. Without Redis the content is in the `common`
    folder of several processes, or in a folder of this server, which `close` deletes. All methods
    raise StateUnreachable.
    """

    def __init__(
        self,
        records: Store,
        shared: Path | None,
        seconds: float,
        limit: int,
        common: Path | None = None,
    ) -> None:
        self._records, self._shared, self._seconds, self._limit = records, shared, seconds, limit
        self._alone = not records.shared or common is not None
        self._common = self._folder = common
        self._entries: dict[str, Entry] = {}

    @property
    def _results(self) -> Path | None:
        """The folder of translated files, if there is one."""
        return self._folder if self._alone else self._shared

    def new_workspace(self, upload: bytes) -> Workspace:
        """Returns a new folder with an upload. Raises Unavailable if it cannot be written, and
        PayloadTooLarge if a file of this size cannot be kept."""
        if not self._alone and self._shared is None and (size := len(upload)) > IN_REDIS:
            raise PayloadTooLarge(
                f"The file's {size:,} bytes are over the limit of {IN_REDIS:,} bytes of this "
                "server."
            )
        self._records.check()
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

    async def keep(
        self, workspace: Workspace, name: str, media_type: str, caller: str, patient: bool = False
    ) -> str:
        """Keeps the result of a workspace and returns its token. If `patient`, waits while Redis
        cannot be reached. Raises Unavailable."""
        token = f"{int(time.time()):08x}{secrets.token_urlsafe(24)}"
        with disk_errors():
            result, content = workspace.result, b""
            size = result.stat().st_size
            folder = self._results if self._alone or size > IN_REDIS else None
            if folder is not None:
                oldest = time.time() - self._seconds
                await asyncio.to_thread(keep_copy, result, folder / token, oldest)
            elif size > RESULT_FACTOR * IN_REDIS:
                raise PayloadTooLarge(
                    "The translated file is too large to be shared by the servers; split the file."
                )
            else:
                content = await asyncio.to_thread(result.read_bytes)
        record = orjson.dumps((name, media_type, folder is not None)) + b"\n" + content
        put = self._records.put_patiently if patient else self._records.put
        await put(NAME, token, record, self._seconds, TRANSFER_SECONDS)
        self._entries[token] = Entry(monotonic() + self._seconds, size, caller)
        await self.prune()
        return token

    async def check(self, token: str) -> None:
        """Raises NotFound if the token is unknown, and ExpiredTranslation if the file is no longer
        kept."""
        if not TOKEN.fullmatch(token) or not await self._records.exists(NAME, token):
            self._missing(token)

    async def find(self, token: str) -> StoredFile:
        """Returns a file. Raises the errors of `check`."""
        await self.prune()
        if not TOKEN.fullmatch(token):
            self._missing(token)
        record = await self._records.find(NAME, token, TRANSFER_SECONDS)
        if record is None:
            self._missing(token)
        head, _, content = record.partition(b"\n")
        name, media_type, in_folder = orjson.loads(head)
        if not in_folder:
            return StoredFile(name, media_type, content)
        path = self._results and self._results / token  # a restarted server has no folder yet
        if path is None or not await asyncio.to_thread(path.exists):
            self._missing(token)
        return StoredFile(name, media_type, path)

    async def forget(self, token: str) -> None:
        """Makes a file unknown. A file that `find` returned before can still be sent."""
        self._entries.pop(token, None)
        await self._records.remove(NAME, token)

    async def prune(self) -> None:
        """Deletes the files of this server that have expired or are beyond the limit, but for one
        file."""
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
            await self._drop(
                next(token for token, entry in self._entries.items() if entry.caller == largest)
            )

    async def close(self) -> None:
        """Deletes the files on this machine."""
        self._entries.clear()
        if self._folder is not None and self._common is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def _drop(self, token: str) -> None:
        self._entries.pop(token, None)
        with disk_errors():
            if self._results is not None:
                await asyncio.to_thread((self._results / token).unlink, missing_ok=True)
        with contextlib.suppress(StateUnreachable):  # the record expires
            await self._records.remove(NAME, token)

    def _missing(self, token: str) -> NoReturn:
        """Raises ExpiredTranslation for a token that was issued, else NotFound."""
        match = TOKEN.fullmatch(token)
        if match is None or int(match[1], 16) > time.time():
            raise NotFound("There is no such file.")
        raise ExpiredTranslation(
            "The translated file is no longer kept; translate it again and fetch it within "
            f"{self._seconds:,.0f} seconds."
        )


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Logs an OSError and raises Unavailable."""
    try:
        yield
    except OSError as error:
        log.warning("a file cannot be kept: %s%s", error.strerror, remedy(error))
        raise Unavailable(f"The file cannot be kept: {error.strerror}.", 60) from error


def keep_copy(source: Path, target: Path, before: float) -> None:
    """Copies a file; the copy gets its name when it is complete. Deletes the files in the folder of
    `target` that are older than the time `before`: a server that was killed leaves its files."""
    with atomic_write(target) as part:
        part.touch(0o600)
        shutil.copyfile(source, part)
    for path in target.parent.iterdir():
        if (match := TOKEN.match(path.name)) and int(match[1], 16) < before:
            path.unlink(missing_ok=True)


def open_store(
    settings: Settings, records: Store, common: Path | None = None, processes: int = 1
) -> FileStore:
    """Returns the store of translated files of one of `processes`. Raises SettingsError for a
    shared folder that cannot be used."""
    folder = settings.file_folder
    alone = not records.shared or common is not None
    if folder is not None and (alone or not folder.is_dir()):
        reason = f"must be a folder, and {str(folder)!r} is none"
        if alone:
            reason = "needs --state redis://host:port"
        raise SettingsError(f"{flag_and_variable('file_folder')} {reason}.")
    limit = settings.file_keep_bytes // processes
    return FileStore(records, folder, settings.file_keep_seconds, limit, common)
