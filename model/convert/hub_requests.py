"""Requests to the Hugging Face hub: the files of a model, and downloads that continue where they stopped."""

from __future__ import annotations

import hashlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from model.model_folder import FolderError

_BLOCK = 1 << 20
_SECONDS = 30
_MAX_ANSWER_BYTES = 20_000_000
_MAX_FILE_BYTES = 64_000_000_000


class HubUnreachable(Exception):
    """The hub does not answer. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a model on the hub. `sha256` is set for large files, `git_sha1` for the others."""

    name: str
    size: int
    sha256: str | None
    git_sha1: str | None


class Hub:
    """The hub that huggingface_hub is set to: address (HF_ENDPOINT), token and offline mode are its settings."""

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        import huggingface_hub  # slow to import
        from huggingface_hub import constants

        self._endpoint = constants.ENDPOINT.rstrip("/")
        self._token = huggingface_hub.get_token()
        self._offline = bool(constants.HF_HUB_OFFLINE)
        self._report = report or _print_progress

    def files(self, repository: str, revision: str) -> tuple[str, dict[str, RemoteFile]]:
        """Returns the commit of a revision and its files by name. Raises FolderError, HubUnreachable."""
        url = f"{self._endpoint}/api/models/{repository}/revision/{quote(revision, safe='')}?blobs=true"
        with self._open(url, repository, revision) as answer:
            data = answer.read(_MAX_ANSWER_BYTES)
        try:
            fields = json.loads(data)
            files = [_remote(entry) for entry in fields["siblings"]]
            return _commit(fields["sha"]), {file.name: file for file in files if "/" not in file.name}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise FolderError(f"The hub's answer about {repository} is not a list of files.") from None

    def read(self, repository: str, commit: str, file: RemoteFile) -> bytes:
        """Returns the content of a small file. Raises FolderError, HubUnreachable."""
        with self._open(self._url(repository, commit, file), repository, commit) as answer:
            data: bytes = answer.read(_MAX_ANSWER_BYTES)
        return data

    def fetch(self, repository: str, commit: str, file: RemoteFile, folder: Path) -> None:
        """Downloads a file to `folder` unless it is there. A part of it that is there is continued.

        Raises FolderError, HubUnreachable, OSError. A file with a wrong hash is deleted.
        """
        path, part = folder / file.name, folder / f"{file.name}.part"
        if path.is_file():
            return
        self._continue(repository, commit, file, part)
        if not _has_hash(part, file):
            part.unlink()
            raise FolderError(f"{file.name} of {repository} was damaged on the way and is deleted: pull it again.")
        part.rename(path)

    def cached(self, repository: str, revision: str, file: str) -> Path | None:
        """Returns the folder of a model in the cache of huggingface_hub, None if it is not there."""
        import huggingface_hub

        found = huggingface_hub.try_to_load_from_cache(repository, file, revision=revision)
        return Path(found).parent if isinstance(found, str) else None

    def _continue(self, repository: str, commit: str, file: RemoteFile, part: Path) -> None:
        """Appends the missing bytes of a file to `part`."""
        done = part.stat().st_size if part.is_file() else 0
        if done > file.size:
            part.unlink()
            done = 0
        if done == file.size and done > 0:
            return
        with self._open(self._url(repository, commit, file), repository, commit, start=done) as answer:
            appended = done > 0 and answer.status == 206
            with part.open("ab" if appended else "wb") as out:
                done = done if appended else 0
                try:
                    while block := answer.read(min(_BLOCK, file.size - done + 1)):
                        out.write(block)
                        done += len(block)
                        self._report(f"\r{file.name}: {done / 1e6:,.1f} of {file.size / 1e6:,.1f} MB")
                        if done > file.size:
                            break
                except (HTTPException, TimeoutError, ConnectionError) as error:
                    raise _unreachable(repository, error) from None
        self._report("\n")
        if done < file.size:
            raise HubUnreachable(
                f"The download of {file.name} of {repository} ended early: pull it again, and it continues."
            )

    def _url(self, repository: str, commit: str, file: RemoteFile) -> str:
        return f"{self._endpoint}/{repository}/resolve/{commit}/{quote(file.name)}"

    def _open(self, url: str, repository: str, revision: str, start: int = 0) -> Any:
        """Opens an address. Raises FolderError where the hub refuses, HubUnreachable where it does not answer."""
        if self._offline:
            raise HubUnreachable(f"{repository} is not on this machine, and HF_HUB_OFFLINE forbids a download.")
        request = urllib.request.Request(url, headers={"User-Agent": "attentive"})  # noqa: S310
        if start:
            request.add_header("Range", f"bytes={start}-")
        if self._token:  # not sent to the storage that the hub redirects to
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            return urllib.request.urlopen(request, timeout=_SECONDS)  # noqa: S310 - the address is a setting
        except urllib.error.HTTPError as error:
            error.close()
            raise _refused(self._endpoint, repository, revision, error) from None
        except (OSError, HTTPException) as error:
            raise _unreachable(repository, error) from None


def _refused(endpoint: str, repository: str, revision: str, error: urllib.error.HTTPError) -> Exception:
    """Returns the error for an answer of the hub that is not a success."""
    code = error.headers.get("X-Error-Code", "")
    if code == "GatedRepo":
        return FolderError(
            f"{repository} is gated: accept its conditions on {endpoint}/{repository} and set HF_TOKEN to a token of "
            "your account."
        )
    if error.code == 429:
        seconds = error.headers.get("Retry-After", "")
        when = f"in {seconds} seconds" if seconds.isdecimal() else "later"
        return FolderError(f"The hub refuses further requests from this address for now (429): try again {when}.")
    if code == "RevisionNotFound":
        return FolderError(f"{repository} has no revision {revision}.")
    if error.code in (401, 403, 404):  # the hub answers 401 for a model that does not exist
        return FolderError(f"The hub has no model {repository}, or it is private and HF_TOKEN has no access to it.")
    return HubUnreachable(f"The hub cannot answer for {repository} at the moment ({error.code}): try again later.")


def _unreachable(repository: str, error: Exception) -> HubUnreachable:
    reason = getattr(error, "reason", None) or error
    return HubUnreachable(
        f"{repository} could not be downloaded ({getattr(reason, 'strerror', None) or type(reason).__name__}): check the "
        "connection, or download it elsewhere and use `attentive import FOLDER`."
    )


def _remote(entry: Any) -> RemoteFile:
    size, large = entry["size"], entry.get("lfs") or {}
    if type(size) is not int or not 0 <= size <= _MAX_FILE_BYTES:
        raise ValueError
    return RemoteFile(str(entry["rfilename"]), size, large.get("sha256"), entry.get("blobId"))


def _commit(sha: Any) -> str:
    if not isinstance(sha, str) or not sha.isalnum():
        raise ValueError
    return sha


def _has_hash(path: Path, file: RemoteFile) -> bool:
    """Checks size and hash: SHA-256 for large files, git's SHA-1 of the blob for small ones."""
    size = path.stat().st_size
    if size != file.size:
        return False
    if file.sha256 is not None:
        hashed, expected = hashlib.sha256(), file.sha256
    elif file.git_sha1 is not None:
        hashed, expected = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False), file.git_sha1
    else:
        return True
    with path.open("rb") as opened:
        while block := opened.read(_BLOCK):
            hashed.update(block)
    return hashed.hexdigest() == expected


def _print_progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()
