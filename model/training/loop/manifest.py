"""Files that belong together and travel one by one: a manifest of their sizes and sums tells when all have arrived."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model.training.recipe import RecipeError


def write_manifest(folder: Path, name: str, files: Sequence[Path], **facts: Any) -> None:
    """Write `folder`/NAME.json: each file's name, bytes and SHA-256, and `facts` for the reader."""
    parts = [{"file": file.name, "bytes": file.stat().st_size, "sha256": _sum(file)} for file in files]
    partial = folder / f"{name}.json.partial"
    partial.write_text(json.dumps({**facts, "parts": parts}, indent=1) + "\n", encoding="utf-8")
    partial.replace(folder / f"{name}.json")


def has_manifest(folder: Path, name: str) -> bool:
    """Whether `name` was written to `folder`; its files may still be on their way."""
    return (folder / f"{name}.json").is_file()


def read_manifest(folder: Path, name: str) -> tuple[list[Path], dict[str, Any]]:
    """The files of `name` in order, and its facts. Raises RecipeError naming what is missing or damaged."""
    try:
        facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        parts = [(folder / Path(part["file"]).name, part["bytes"], part["sha256"]) for part in facts["parts"]]
    except OSError:
        raise RecipeError(f"There is no {name}.json in {folder}.") from None
    except (ValueError, KeyError, TypeError):
        raise RecipeError(f"{folder / name}.json is not a manifest.") from None
    if missing := [file.name for file, size, _ in parts if not file.is_file() or file.stat().st_size != size]:
        raise RecipeError(f"{folder} lacks {', '.join(missing)} of {name}, or has them in part.")
    if damaged := [file.name for file, _, wanted in parts if _sum(file) != wanted]:
        raise RecipeError(f"{', '.join(damaged)} in {folder} differ from what {name}.json says.")
    return [file for file, _, _ in parts], facts


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
