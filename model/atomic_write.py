"""Atomic writes: a reader of a file sees its old contents or all of the new ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PART_SUFFIX = ".part"
"""Suffix of a file that is being written."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields the path of a temporary file beside `path`, which replaces `path` at the end of the
    block. After an exception `path` is unchanged."""
    part = path.with_name(f"{path.name}{PART_SUFFIX}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
