"""API keys: made and revoked by `attentive keys`, looked up by the server. Only their SHA-256 is stored.

A key is 256 random bits, so that a fast hash is enough: there is nothing to guess. The file is small, is replaced as a
whole and never written by the server, which notices a change by the file's time and size.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import logging
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from server.errors import SettingsError

log = logging.getLogger(__name__)
FILE_NAME = "keys.json"
PREFIX = "atk_"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `id` is what people call it by; `digest` is the SHA-256 of the secret in hexadecimal. Limits are per
    minute: None takes the server's, 0 is unlimited. Times are in seconds since the epoch."""

    id: str
    name: str
    digest: str
    created: float
    requests_per_minute: int | None = None
    characters_per_minute: int | None = None
    revoked: float | None = None


class KeyFile:
    """The keys of one data folder. Raises SettingsError for a file that holds something else."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._state: tuple[int, int, int] | None = None
        self._by_digest: dict[str, Key] = {}
        self._load()

    def __len__(self) -> int:
        """Keys that are good."""
        self._refresh()
        return len(self._by_digest)

    def find(self, secret: str) -> Key | None:
        """The key of a secret, unless it was revoked."""
        self._refresh()
        return self._by_digest.get(digest(secret))

    def all(self) -> list[Key]:
        """Every key, revoked ones too, oldest first."""
        return read(self.path)

    def create(
        self, name: str, requests_per_minute: int | None = None, characters_per_minute: int | None = None
    ) -> tuple[str, Key]:
        """A new key and its secret, which is told this once."""
        secret = PREFIX + secrets.token_urlsafe(32)
        made = Key(secrets.token_hex(4), name, digest(secret), time.time(), requests_per_minute, characters_per_minute)
        with self._locked():
            self._write([*read(self.path), made])
        return secret, made

    def revoke(self, id: str) -> Key | None:
        """Ends a key from now on; None where no good key has this id."""
        with self._locked():
            keys = read(self.path)
            found = next((key for key in keys if key.id == id and key.revoked is None), None)
            if found is not None:
                ended = dataclasses.replace(found, revoked=time.time())
                self._write([ended if key is found else key for key in keys])
            return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Two commands at the same time change the file one after the other."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, keys: list[Key]) -> None:
        text = json.dumps({"keys": [dataclasses.asdict(key) for key in keys]}, indent=2, ensure_ascii=False)
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, encoding="utf-8", delete=False) as file:
            file.write(text)  # the file is created with mode 0600
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self.path)

    def _refresh(self) -> None:
        if self._stat() == self._state:
            return
        try:
            self._load()
        except SettingsError as error:  # whoever edits it by hand locks nobody out meanwhile
            log.error("the keys stay as they were: %s", error)
            self._state = self._stat()

    def _load(self) -> None:
        state = self._stat()
        self._by_digest = {key.digest: key for key in read(self.path) if key.revoked is None}
        self._state = state

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read(path: Path) -> list[Key]:
    """All keys of a file; none where there is no file. Raises SettingsError where it cannot be read."""
    try:
        return [Key(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["keys"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingsError(f"The key file {path} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, KeyError) as error:
        raise SettingsError(f"The key file {path} is damaged: it was not written by `attentive keys`.") from error
