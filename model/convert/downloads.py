"""Downloads of model files over HTTP: resumed, with checked hashes, to a folder that is locked by
one process. Every failure is a FolderError with one sentence."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tqdm import tqdm

from model.model_folder import FolderError

Progress = Callable[[str, int, int], None]
"""Receives a file's name, its bytes so far and its total bytes, 0 if the server does not state
them."""
MAX_LIST_BYTES = 20_000_000
_BLOCK = 1 << 20
_GZIP_BYTES = 1 << 16
"""How much larger than its content a gzip file may be, in bytes."""
_SECONDS = 30
_DISCONNECTED = (URLError, HTTPException, TimeoutError, ConnectionError, SSLError)
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)


class Refused(FolderError):
    """A server rejected a request with `status`. `code` is the hub's error code."""

    def __init__(self, message: str, status: int, code: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code
        self.final = 400 <= status < 500 and status not in (408, 425, 429)


class NotPublished(FolderError):
    """A publisher does not have the model."""

    final = True


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file to download as `name`. A `packed` file is gzip; `most` bytes and hashes are those of
    the unpacked file. With `exact` it has exactly `most` bytes."""

    name: str
    url: str
    most: int
    exact: bool = True
    packed: bool = False
    sha256: str | None = None
    git_sha1: str | None = None


@contextlib.contextmanager
def pull_folder(weights: Path, name: str) -> Iterator[Path]:
    """Creates and locks the folder `.pull/NAME` beside the model folders, and removes it after the
    block.

    After an error its files stay, and the next download resumes. Raises FolderError while another
    process holds the lock.
    """
    folder = weights / ".pull" / name
    with _one_sentence(name, folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        busy = os.fstat(descriptor).st_nlink == 0  # the other process has just removed it
    except OSError:
        busy = True
    if busy:
        os.close(descriptor)
        raise FolderError(
            f"Another process is downloading to {folder}: pull again when it has finished."
        )
    try:
        yield folder
        shutil.rmtree(folder)
    finally:
        for empty in (folder, folder.parent):
            # there is a part of this download, or another download
            with contextlib.suppress(OSError):
                empty.rmdir()
        os.close(descriptor)


def discard_pull(weights: Path, name: str) -> None:
    """Removes what downloads of a model folder have left, unless a process is downloading it."""
    for folder in [weights / ".pull" / name, *(weights / ".pull").glob(f"{name}--*")]:
        if folder.is_dir():
            with contextlib.suppress(FolderError), pull_folder(weights, folder.name):
                pass  # the end of the block removes it


def read_url(url: str, name: str, token: str | None = None) -> bytes:
    """Returns a list of models or of files. Errors call it `name`. Raises FolderError."""
    with _one_sentence(name), _open(url, token) as answer:
        data: bytes = answer.read(MAX_LIST_BYTES)
    return data


def fetch(
    file: RemoteFile,
    folder: Path,
    name: str,
    token: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Downloads a file of the model `name` to `folder` unless it is there. Resumes a partial file,
    and deletes one with a wrong hash. Raises FolderError."""
    path, part = folder / file.name, folder / f"{file.name}.part"
    with _one_sentence(f"{file.name} of {name}", folder):
        if path.is_file() and _is_right(path, file):
            return
        complete = False
        while not complete:
            before = _size(part)
            try:
                complete = _continue(file, part, token, progress)
            except _DISCONNECTED:
                if _size(part) <= before:
                    raise
            if not complete and _size(part) <= before:
                message = (
                    f"The download of {file.name} of {name} ended early: pull it again, and it "
                    "continues."
                )
                raise FolderError(message)
        whole = folder / f"{file.name}.unpacked" if file.packed else part
        try:
            if file.packed:
                _unpack(part, whole, file.most)
            right = _is_right(whole, file)
        except _BROKEN:
            right = False
        if not right:
            part.unlink()
            whole.unlink(missing_ok=True)
            raise FolderError(
                f"{file.name} of {name} was damaged on the way and is deleted: pull it again."
            )
        whole.rename(path)
        part.unlink(missing_ok=True)


def _continue(file: RemoteFile, part: Path, token: str | None, progress: Progress | None) -> bool:
    """Appends missing bytes to `part`, and at most one block too many. Returns whether it is
    complete."""
    done, most = _size(part), file.most + (_GZIP_BYTES if file.packed else 1)
    if part.is_file() and done >= (most if file.packed else file.most):
        return True
    try:
        answer = _open(file.url, token, start=done)
    except HTTPError as error:
        if error.code != 416 or not done:
            raise
        error.close()
        part.unlink()  # of another file, which was longer
        answer = _open(file.url, token)
    with answer, part.open("ab" if answer.status == 206 else "wb") as out:
        total = out.tell() + answer.length if answer.length else None
        with tqdm(
            desc=file.name, total=total, initial=out.tell(), unit="B", unit_scale=True, disable=None
        ) as bar:
            while block := answer.read(min(_BLOCK, most - out.tell())):
                bar.update(out.write(block))
                if progress is not None:
                    progress(file.name, out.tell(), total or 0)
    return _size(part) >= file.most if file.exact and not file.packed else not answer.length


def _unpack(packed: Path, whole: Path, most: int) -> None:
    """Unpacks a gzip file, up to one byte more than `most`."""
    with gzip.open(packed) as source, whole.open("wb") as out:
        while block := source.read(min(_BLOCK, most + 1 - out.tell())):
            out.write(block)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _open(url: str, token: str | None, start: int = 0) -> Any:
    if not url.startswith(("http://", "https://")):
        raise FolderError(f"{url!r} is not an address that starts with http:// or https://.")
    request = Request(url, headers={"User-Agent": "attentive"})  # noqa: S310 - checked above
    if start:
        request.add_header("Range", f"bytes={start}-")
    if token:  # not sent to the storage that the hub redirects to
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return urlopen(request, timeout=_SECONDS)  # noqa: S310


def _is_right(path: Path, file: RemoteFile) -> bool:
    """Checks the size, and the hash if there is one: SHA-256, or git's SHA-1 of the blob."""
    size = path.stat().st_size
    if size > file.most or (file.exact and size < file.most):
        return False
    with path.open("rb") as opened:
        if file.sha256 is not None:
            return hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256
        if file.git_sha1 is not None:
            blob = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
            return hashlib.file_digest(opened, lambda: blob).hexdigest() == file.git_sha1
    return True


@contextlib.contextmanager
def _one_sentence(name: str, folder: Path | None = None) -> Iterator[None]:
    """Turns errors of the connection, and of the disk of `folder`, into FolderError."""
    otherwise = "or download its files elsewhere and use `attentive import FOLDER`"
    try:
        yield
    except HTTPError as error:
        error.close()
        code = error.headers.get("X-Error-Code", "")
        if error.code == 429:
            seconds = error.headers.get("Retry-After", "")
            when = f"in {seconds} seconds" if seconds.isdecimal() else "later"
            message = (
                f"{name}: the server refuses further requests from this address (429): try again "
                f"{when}."
            )
            raise Refused(message, error.code, code) from None
        why = {404: "the server does not have it; "}.get(error.code, "")
        if 300 <= error.code < 400:
            why = "its address redirects without end; "
        message = (
            f"{name} could not be downloaded ({error.code}): {why}try again later, {otherwise}."
        )
        raise Refused(message, error.code, code) from None
    except _DISCONNECTED as error:
        cause = getattr(error, "reason", None) or error
        reason = getattr(cause, "strerror", None) or type(cause).__name__
        raise FolderError(
            f"{name} could not be downloaded ({reason}): check the connection, {otherwise}."
        ) from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = (
            f"the disk of {folder} is full; free some space and pull again"
            if full
            else error.strerror or error
        )
        raise FolderError(f"The download of {name} cannot be written: {reason}.") from None
