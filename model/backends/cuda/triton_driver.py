"""Triton's driver, compiled with the image.

Triton compiles it at its first use and loads it from its cache. The image has no C compiler, and
files may not be executed where its cache is (/tmp).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_COMPILED = Path(__file__).with_name("compiled_driver")
"""A cache of Triton's, made by the Dockerfile: a folder for each version of the driver. Other
installations have none."""


def link_compiled_driver(cache: Path, compiled: Path = _COMPILED) -> None:
    """Adds the compiled driver to Triton's cache. Raises OSError where the cache cannot be
    written."""
    for folder in compiled.glob("*"):
        cache.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (cache / folder.name).symlink_to(folder)
