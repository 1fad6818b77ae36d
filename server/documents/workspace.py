"""The folder of one document in progress. A waiting document uses disk space and no memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import orjson


class Workspace:
    """The files of one document: the upload, its texts, their translations, and the translated file. Texts are JSON
    strings, one per line."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.upload = self.folder / "upload"
        self.result = self.folder / "result"
        self._texts = self.folder / "texts"
        self._translations = self.folder / "translations"

    def save_texts(self, texts: Iterable[str]) -> None:
        """Writes the texts to translate."""
        with self._texts.open("wb") as file:
            file.writelines(orjson.dumps(text) + b"\n" for text in texts)

    def texts(self) -> Iterator[str]:
        """Yields the texts to translate."""
        return read_lines(self._texts)

    def add_translations(self, translations: Sequence[str]) -> None:
        """Appends translations of the next texts."""
        with self._translations.open("ab") as file:
            file.writelines(orjson.dumps(text) + b"\n" for text in translations)

    def translated_texts(self) -> Iterator[str]:
        """Yields the translations."""
        return read_lines(self._translations) if self._translations.exists() else iter(())

    def remove(self) -> None:
        """Deletes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def read_lines(path: Path) -> Iterator[str]:
    """Yields the strings of a file."""
    with path.open("rb") as file:
        for line in file:
            text: str = orjson.loads(line)
            yield text
