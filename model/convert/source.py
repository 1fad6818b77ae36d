"""A family of models of other programs, as the table in `families.py` lists them."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from model.convert.downloads import Progress
from model.convert.published import PublishedModel
from model.convert.source_files import Imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Who lists models of a family outside the hub. `setting` is the setting of the server with the address of the list;
    `download` gets the pair, the folder of models and that address, `find_all` the address."""

    prefix: str
    setting: str
    download: Callable[[str, Path, str, Progress | None], AbstractContextManager[tuple[Path, str]]]
    find_all: Callable[[str], Sequence[PublishedModel]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A layout that a model folder can be written in. `write` gets the folder and the output and raises FolderError.

    With `quantizes` it also takes `quantization`, a number format; with `one_pair` the output is one file for one pair, and it
    takes `source`, `target` and `language_name`, which names a code for readers.
    """

    name: str
    write: Callable[..., None]
    quantizes: bool = False
    one_pair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A family of models. `sign` is the file by which its folders are known, for readers. `read` raises ImportRefused with
    all reasons.

    Of each of `needs`, patterns of file names, the first one that matches is read; `others` are read where they are
    there. `model_type` is that of Hugging Face's config.json, and `models` names well-known ones.
    """

    sign: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path], Imported]
    needs: tuple[tuple[str, ...], ...] = ()
    others: tuple[str, ...] = ()
    model_type: str = ""
    models: str = ""
    publisher: Publisher | None = None
    export: Export | None = None

    def files(self, present: Collection[str]) -> tuple[list[str], list[str]]:
        """Returns the names to read of the `present` files, those of the last of `needs` (weights) last, and what is missing."""
        found = [next(filter(None, (fnmatch.filter(present, name) for name in names)), []) for names in self.needs]
        missing = [
            " or ".join(name for name in names if "-*" not in name)
            for names, files in zip(self.needs, found, strict=True)
            if not files
        ]
        more = [name for pattern in self.others for name in fnmatch.filter(present, pattern)]
        return list(dict.fromkeys(name for names in (more, *found) for name in names)), missing
