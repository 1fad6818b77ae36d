"""The folder of one document in progress. A waiting document uses disk space and no memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson


class Workspace:
    """The files of one document: the upload, its texts, their translations, and the translated file."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.upload = self.folder / "upload"
        self.texts = self.folder / "texts"
        self.translations = self.folder / "translations"
        self.result = self.folder / "result"

    def remove(self) -> None:
        """Deletes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def add_lines(path: Path, texts: Iterable[str]) -> None:
    """Appends texts to a file of JSON strings, one per line."""
    with path.open("ab") as file:
        file.writelines(orjson.dumps(text) + b"\n" for text in texts)


def read_lines(path: Path) -> Iterator[str]:
    """Yields the texts of a file that `add_lines` has written."""
    with path.open("rb") as file:
        yield from map(orjson.loads, file)
