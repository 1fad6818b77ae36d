"""Shared by the exports: the new folder, and models that no layout of others can represent."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from model.config import ModelConfig
from model.model_folder import FolderError


@contextlib.contextmanager
def new_output(output: Path) -> Iterator[None]:
    """Creates the folder `output`, and removes it if the block fails. Raises FolderError if it
    exists."""
    try:
        output.mkdir(parents=True)
    except FileExistsError:
        raise FolderError(f"{output} exists already.") from None
    try:
        yield
    except BaseException:
        shutil.rmtree(output)
        raise


def unrepresentable(config: ModelConfig) -> list[str]:
    """Returns what neither CTranslate2 nor Hugging Face's Marian can represent."""
    return (
        []
        if config.recurrence == "none"
        else ["a recurrence in place of the decoder's self-attention"]
    )
