"""The file of API keys. `attentive keys` writes it and the server reads it. Only the SHA-256 of a secret is stored.

A secret has 256 random bits, so that a fast hash is sufficient. The file is replaced as a whole at each change. The
server detects a change by the time, size and inode of the file.
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
from typing import TypedDict, Unpack

from server.errors import SettingsError

log = logging.getLogger(__name__)
FILE_NAME = "keys.json"
PREFIX = "atk_"
MIN_WEIGHT, MAX_WEIGHT = 0.1, 100.0


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `id` is public; `digest` is the SHA-256 of the secret in hexadecimal. A limit is per minute; None
    selects the server's limit and 0 no limit. Times are in seconds since the epoch. `weight` multiplies the caller's
    share of the server; a caller without a key has weight 1. If not `remembered`, the caller's texts are stored neither
    in the history nor in the result cache. Raises SettingsError for a weight out of range."""

    id: str
    name: str
    digest: str
    created: float
    requests_per_minute: int | None = None
    characters_per_minute: int | None = None
    revoked: float | None = None
    weight: float = 1.0
    remembered: bool = True

    def __post_init__(self) -> None:
        if not MIN_WEIGHT <= self.weight <= MAX_WEIGHT:
            raise SettingsError(
                f"The weight of a key must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, not {self.weight:g}."
            )


class KeyOptions(TypedDict, total=False):
    """The fields of a Key that its creator may choose."""

    requests_per_minute: int | None
    characters_per_minute: int | None
    weight: float
    remembered: bool


class KeyFile:
    """The keys of one data folder. Raises SettingsError for a damaged file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._state: tuple[int, int, int] | None = None
        self._by_digest: dict[str, Key] = {}
        self._load()

    @property
    def in_use(self) -> bool:
        """Whether there is a valid key."""
        self._refresh()
        return bool(self._by_digest)

    def find(self, secret: str) -> Key | None:
        """Returns the valid key of a secret, or None."""
        self._refresh()
        return self._by_digest.get(digest(secret))

    def all(self) -> list[Key]:
        """Returns all keys, revoked ones included, oldest first."""
        return read(self.path)

    def create(self, name: str, **options: Unpack[KeyOptions]) -> tuple[str, Key]:
        """Creates a key and returns its secret, which is not stored, and the key. Raises SettingsError for an
        empty name or a weight out of range."""
        secret, key = new_key(name, **options)
        with self._locked():
            self._write([*read(self.path), key])
        return secret, key

    def revoke(self, id: str) -> Key | None:
        """Revokes a key and returns it, or returns None where no valid key has this id."""
        if not self.path.exists():  # a command with a mistyped folder creates none
            return None
        with self._locked():
            keys = read(self.path)
            found = next((key for key in keys if key.id == id and key.revoked is None), None)
            if found is not None:
                revoked = dataclasses.replace(found, revoked=time.time())
                self._write([revoked if key is found else key for key in keys])
            return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Serializes changes of the file by concurrent commands."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, keys: list[Key]) -> None:
        text = json.dumps({"keys": [dataclasses.asdict(key) for key in keys]}, indent=2, ensure_ascii=False)
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, encoding="utf-8", delete=False) as file:
            new = Path(file.name)
            try:
                file.write(text)  # the file is created with mode 0600
                file.flush()
                os.fsync(file.fileno())
                new.replace(self.path)
            except BaseException:  # a full disk
                new.unlink()
                raise

    def _refresh(self) -> None:
        if self._stat() == self._state:
            return
        try:
            self._load()
        except SettingsError as error:  # an unfinished manual edit must not invalidate the keys
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


def new_key(name: str, **options: Unpack[KeyOptions]) -> tuple[str, Key]:
    """Returns a new secret and its key. Raises SettingsError for an empty name or a weight out of range."""
    if not name.strip():
        raise SettingsError("The name of a key must not be empty.")
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, Key(secrets.token_hex(4), name, digest(secret), time.time(), **options)


def digest(secret: str) -> str:
    """Returns the SHA-256 of a secret in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read(path: Path) -> list[Key]:
    """Returns all keys of a file, or none where the file does not exist. Raises SettingsError for a damaged file."""
    try:
        return [Key(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["keys"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingsError(f"The key file {path} cannot be read: {error.strerror}.") from error
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise SettingsError(f"The key file {path} is damaged: it was not written by `attentive keys`.") from error
