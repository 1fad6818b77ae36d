"""Whether a GPU still computes, and Triton's driver, which is compiled with the image: the image
has no C compiler, and files may not be executed in Triton's cache (/tmp)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import torch

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


def check_device(device: torch.device | str) -> None:
    """Raises the error of a broken GPU: after an illegal address, every further call of the process
    fails. Waits for the present stream only, because another thread may be capturing."""
    torch.cuda.current_stream(device).synchronize()
