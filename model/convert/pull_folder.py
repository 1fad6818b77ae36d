"""The folder `.pull/NAME` beside the model folders, to which one process at a time downloads a model."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from model.model_folder import FolderError


class FolderLock:
    """Creates a folder and locks it until `release`. Raises FolderError where another process has locked it, OSError."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            busy = os.fstat(self._descriptor).st_nlink == 0  # the other process has just removed it
        except BlockingIOError:
            busy = True
        except OSError:
            os.close(self._descriptor)
            raise
        if busy:
            os.close(self._descriptor)
            raise FolderError(f"Another process is downloading to {folder}: pull again when it has finished.")

    def release(self) -> None:
        """Unlocks the folder, and removes it if it is empty."""
        for folder in (self._folder, self._folder.parent):
            with contextlib.suppress(OSError):  # there is a part of this download, or another download
                folder.rmdir()
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A complete download: the folder of its files, and its commit. `with`: it stays locked while the block runs.
    `temporary` files are removed by `discard`."""

    path: Path
    commit: str
    lock: FolderLock
    temporary: bool = True

    def __enter__(self) -> Downloaded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lock.release()

    def discard(self) -> None:
        """Removes temporary files."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)


def unwritable(name: str, weights: Path, error: OSError) -> FolderError:
    """Returns the error for a download that cannot be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = f"the disk of {weights} is full; free some space and pull again" if full else error.strerror or error
    return FolderError(f"The download of {name} cannot be written: {reason}.")
