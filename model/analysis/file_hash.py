"""A quick hash of large files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def hash_of_files(files: Iterable[Path], ends_bytes: int) -> str:
    """Returns a hash of files in their order: their names, sizes, and `ends_bytes` bytes at each end (hexadecimal)."""
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as content:
            digest.update(content.read(ends_bytes))
            content.seek(max(0, size - ends_bytes))
            digest.update(content.read(ends_bytes))
    return digest.hexdigest()
