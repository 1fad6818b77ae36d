"""Keeps translated files on disk until they are downloaded, limited in bytes and in time, under random tokens."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from server.errors import NotFound, Unavailable


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file on disk. `name` is the file name for the download, `until` the time of expiry in seconds on the monotonic
    clock."""

    path: Path
    name: str
    media_type: str
    size: int
    until: float


class FileStore:
    """Keeps each file for `seconds` and `limit` bytes in total. The oldest files are deleted first, `close` deletes
    all."""

    def __init__(self, seconds: float, limit: int) -> None:
        self._seconds = seconds
        self._limit = limit
        self._folder: Path | None = None
        self._files: dict[str, StoredFile] = {}

    def save(self, content: bytes, name: str, media_type: str) -> str:
        """Saves a file and returns its token. Raises Unavailable if it cannot be written to disk."""
        token = secrets.token_urlsafe(24)
        path: Path | None = None
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="attentive-"))
            path = self._folder / token
            path.write_bytes(content)
        except OSError as error:
            if path is not None:
                path.unlink(missing_ok=True)  # a partly written file
            raise Unavailable("The translated file cannot be kept: the disk is full or not writable.", 60) from error
        self._files[token] = StoredFile(path, name, media_type, len(content), monotonic() + self._seconds)
        self._prune()
        return token

    def find(self, token: str) -> StoredFile:
        """Returns a file. Raises NotFound if the token is unknown or the file has expired."""
        self._prune()
        if (found := self._files.get(token)) is None:
            raise NotFound(f"There is no such file; files are kept for {self._seconds:,.0f} seconds.")
        return found

    def close(self) -> None:
        """Deletes all files."""
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _prune(self) -> None:
        now = monotonic()
        size = sum(file.size for file in self._files.values())
        for token, file in list(self._files.items()):  # oldest first; the newest file is always kept
            if file.until > now and (size <= self._limit or len(self._files) == 1):
                return
            file.path.unlink(missing_ok=True)
            size -= file.size
            del self._files[token]
