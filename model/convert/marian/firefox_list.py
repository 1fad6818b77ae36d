"""Download of Firefox's models from the list that Mozilla publishes (models.json), with the checked hash of the weights.

The list has `baseUrl`, and for each pair such as en-de its models: architecture, release status, paths of gzip files, size
and SHA-256 of the unpacked weights, and scores on FLORES-200. For the other files it has no hash; gzip's CRC is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from model.convert.downloads import RemoteFile, fetch, pull_folder, read_url
from model.convert.languages import language_code
from model.convert.marian.firefox import METADATA
from model.model_folder import FolderError

PREFIX = "firefox/"
_ARCHITECTURES = ("base-memory", "base", "tiny")
_VOCABULARIES = (("vocab",), ("srcVocab", "trgVocab"))
_SHORTLIST = "lexicalShortlist"
_MAX_FILE_BYTES = 1_000_000_000
_SCORES = (("bleu", "BLEU", 1), ("comet22", "COMET", 4), ("comet", "COMET", 4))


@dataclass(frozen=True, slots=True)
class Published:
    """A model of the list. `files` are the weights, one or two vocabularies, and the shortlist if there is one."""

    source: str
    target: str
    architecture: str
    files: tuple[RemoteFile, ...]
    scores: dict[str, float]

    @property
    def name(self) -> str:
        """The name with which `pull` finds the model."""
        return f"{PREFIX}{self.source}-{self.target}"

    def __str__(self) -> str:
        shown = [f"{name} {self.scores[key]:.{digits}f}" for key, name, digits in _SCORES if key in self.scores]
        scores = f"; {', '.join(shown)} on FLORES-200, measured by Mozilla" if shown else ""
        megabytes = self.files[0].most / 1e6
        return f"{self.name}: {self.architecture}, {megabytes:,.1f} MB of weights; licence: MPL-2.0{scores}."


def find(pair: str, address: str) -> Published:
    """Returns the model of a pair such as en-de in the list at `address`: a released one if there is one, the largest
    architecture first. Raises FolderError with one sentence."""
    answer = read_url(address, "The list of Firefox's models")
    try:
        listed = json.loads(answer)
        base, models = str(listed["baseUrl"]).rstrip("/"), dict(listed["models"])
        named = {_our_codes(name): name for name in models}
        entries = models.get(pair) or models.get(named.get(_our_codes(pair)), [])
        entries = [entry for entry in entries if "model" in entry.get("files", {})]
        published = [_published(base, entry) for entry in sorted(entries, key=_preference)[:1]]
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, RecursionError):
        raise FolderError(f"{address} is not a list of Firefox's models.") from None
    if not published:
        raise FolderError(f"Mozilla publishes no model for {pair}; {address} lists its models.")
    return published[0]


@contextmanager
def download(model: Published, weights: Path) -> Iterator[tuple[Path, str]]:
    """Downloads and unpacks the files of a model to a folder under `weights`, which is removed after the block. Raises
    FolderError with one sentence for every failure."""
    first = model.files[0]
    with pull_folder(weights, f"firefox--{model.source}-{model.target}-{str(first.sha256)[:12]}") as folder:
        for file in model.files:
            fetch(file, folder, model.name)
        metadata = {"sourceLanguage": model.source, "targetLanguage": model.target, "architecture": model.architecture}
        (folder / METADATA).write_text(json.dumps(metadata) + "\n", encoding="utf-8")
        yield folder, f"{first.url}, SHA-256 {first.sha256}"


def _published(base: str, entry: dict[str, Any]) -> Published:
    """Returns an entry of the list. Raises KeyError, TypeError or ValueError for one without the necessary files."""
    listed = entry["files"]
    vocabularies = next(names for names in _VOCABULARIES if all(name in listed for name in names))
    size, sha256 = int(listed["model"]["uncompressedSize"]), str(listed["model"]["uncompressedHash"]).lower()
    source, target = str(entry["sourceLanguage"]), str(entry["targetLanguage"])
    codes = (code.replace("_", "").replace("-", "") for code in (source, target))
    if not 0 < size <= _MAX_FILE_BYTES or not all(part.isalnum() for part in (sha256, *codes)):
        raise ValueError
    files = [_remote(base, listed["model"], most=size, sha256=sha256)]
    for name in (*vocabularies, _SHORTLIST):
        if name in listed:
            files.append(_remote(base, listed[name], most=_MAX_FILE_BYTES, exact=False))
    scores = {key: float(value) for key, value in entry.get("metrics", {}).get("flores200-plus", {}).items()}
    return Published(source, target, str(entry["architecture"]), tuple(files), scores)


def _remote(base: str, file: dict[str, Any], **sizes: Any) -> RemoteFile:
    name = PurePosixPath(file["path"]).name.removesuffix(".gz")
    return RemoteFile(name, f"{base}/{file['path']}", packed=True, **sizes)


def _preference(entry: dict[str, Any]) -> tuple[bool, int]:
    """Sorts released models first, and larger ones before smaller ones."""
    architecture = entry.get("architecture")
    place = _ARCHITECTURES.index(architecture) if architecture in _ARCHITECTURES else len(_ARCHITECTURES)
    return not str(entry.get("releaseStatus")).startswith("Release"), place


def _our_codes(pair: str) -> str:
    """Returns a pair such as en-zh_hant in our codes: en-zh-Hant."""
    return "-".join(language_code(code) for code in pair.split("-", 1))
