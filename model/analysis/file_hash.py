"""A quick hash of large files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from model.weight_files import weight_files

SAMPLE_BYTES = 4096


def hash_of_weights(folder: Path, ends_bytes: int) -> str:
    """Returns a hash of the weight files of a folder: their names, sizes, and `ends_bytes` bytes at each end. Raises
    FolderError without weight files."""
    return hash_of_files(weight_files(folder), ends_bytes)


def hash_of_files(files: Iterable[Path], ends_bytes: int, step: int = 0) -> str:
    """Returns a hash of files in their order: their names, sizes, and `ends_bytes` bytes at each end (hexadecimal). With
    a `step` also SAMPLE_BYTES at every `step` bytes between the ends."""
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as content:
            digest.update(content.read(ends_bytes))
            for position in range(ends_bytes, size - ends_bytes, step) if step else ():
                content.seek(position)
                digest.update(content.read(SAMPLE_BYTES))
            content.seek(max(0, size - ends_bytes))
            digest.update(content.read(ends_bytes))
    return digest.hexdigest()
