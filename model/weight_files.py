"""The weight files of a model folder, model.safetensors or shards with an index, and quick hashes
of them. Imports no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from model.model_folder import FolderError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
"""Maps each tensor to its shard, as in Hugging Face's folders."""
SAMPLE_BYTES = 4096


def weight_files(folder: Path) -> list[Path]:
    """Returns the files with the weights of a model folder, in the order of their names.

    Other safetensors files, such as the shortlist, have no weights. Raises FolderError if a file is
    missing, or if the index is damaged or names a file outside the folder.
    """
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    try:
        names = sorted(
            set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        )
    except OSError:
        raise FolderError(f"{folder} holds no {SINGLE} and no {INDEX}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FolderError(f"{folder / INDEX} is not an index of safetensors shards.") from None
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise FolderError(f"{folder / INDEX} names {name!r}, which is not a plain file name.")
        if not (folder / name).is_file():
            raise FolderError(f"{folder} lacks the shard {name}.")
    return [folder / name for name in names]


def weight_bytes(folder: Path) -> int:
    """Returns the size of the weight files. Raises FolderError as `weight_files` does."""
    return sum(file.stat().st_size for file in weight_files(folder))


def hash_of_files(files: Iterable[Path], ends_bytes: int, step: int = 0) -> str:
    """Returns a hash of files in their order: their names, sizes, and `ends_bytes` bytes at each
    end (hexadecimal). With a `step` also SAMPLE_BYTES at every `step` bytes between the ends."""
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
