"""Download of Firefox's models from the list that Mozilla publishes (models.json), with the checked
hash of the weights.

The list has `baseUrl`, and for each pair such as en-de its models: architecture, release status,
paths of gzip files, size and SHA-256 of the unpacked weights, and scores on FLORES-200. For the
other files it has no hash; gzip's CRC is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from model.convert.downloads import NotPublished, Progress, RemoteFile, fetch, pull_folder, read_url
from model.convert.marian.firefox import METADATA, find_models, read_firefox
from model.convert.published import PublishedModel, codes, folder_of
from model.convert.source_files import Publisher, Source
from model.model_folder import FolderError

_PREFIX = "firefox/"
_ARCHITECTURES = ("base-memory", "base", "tiny")
_VOCABULARIES = (("vocab",), ("srcVocab", "trgVocab"))
_SHORTLIST = "lexicalShortlist"
_MAX_FILE_BYTES = 1_000_000_000
_INCOMPLETE = (KeyError, TypeError, ValueError, AttributeError, StopIteration, RecursionError)
_NO_LIST = "{} is not a list of Firefox's models."


@dataclass(frozen=True, slots=True)
class FirefoxModel(PublishedModel):
    """A model of the list. `files` are the weights, one or two vocabularies, and the shortlist if
    there is one."""

    architecture: str = ""
    files: tuple[RemoteFile, ...] = ()


def find(pair: str, address: str) -> FirefoxModel:
    """Returns the model of a pair such as en-de in the list at `address`: a released one if there
    is one, the largest architecture first. Raises FolderError with one sentence."""
    base, models = _read_list(address)
    named = {codes(name): name for name in models}
    try:
        published = _best(base, models.get(pair) or models.get(named.get(codes(pair), ""), []))
    except _INCOMPLETE:
        raise FolderError(_NO_LIST.format(address)) from None
    if published is None:
        raise NotPublished(f"Mozilla publishes no model for {pair}; {address} lists its models.")
    return published


def find_all(address: str) -> list[FirefoxModel]:
    """Returns the model of each pair that `find` would find. Raises FolderError."""
    base, models = _read_list(address)
    best = []
    for pair in sorted(models):
        with suppress(*_INCOMPLETE):
            best.append(_best(base, models[pair]))
    return [model for model in best if model is not None]


def _read_list(address: str) -> tuple[str, dict[str, Any]]:
    """Returns the address of the files, and the entries of each pair."""
    answer = read_url(address, "The list of Firefox's models")
    try:
        listed = json.loads(answer)
        return str(listed["baseUrl"]).rstrip("/"), dict(listed["models"])
    except _INCOMPLETE:
        raise FolderError(_NO_LIST.format(address)) from None


def _best(base: str, entries: Any) -> FirefoxModel | None:
    """Returns the best of the entries of a pair. Raises one of _INCOMPLETE."""
    complete = sorted(
        (entry for entry in entries if "model" in entry.get("files", {})), key=_preference
    )
    return _published(base, complete[0]) if complete else None


@contextmanager
def download(
    model: FirefoxModel, weights: Path, progress: Progress | None = None
) -> Iterator[tuple[Path, str]]:
    """Downloads and unpacks the files of a model to a folder under `weights`, which is removed
    after the block. Raises FolderError with one sentence for every failure."""
    first = model.files[0]
    with pull_folder(weights, f"{folder_of(model.name)}--{str(first.sha256)[:12]}") as folder:
        for file in model.files:
            fetch(file, folder, model.name, progress=progress)
        metadata = {
            "sourceLanguage": model.source,
            "targetLanguage": model.target,
            "architecture": model.architecture,
        }
        (folder / METADATA).write_text(
            json.dumps(metadata | {"flores": model.scores}) + "\n", encoding="utf-8"
        )
        yield folder, f"{first.url}, SHA-256 {first.sha256}"


def _published(base: str, entry: dict[str, Any]) -> FirefoxModel:
    """Returns an entry of the list. Raises KeyError, TypeError or ValueError for one without the
    necessary files."""
    listed = entry["files"]
    vocabularies = next(names for names in _VOCABULARIES if all(name in listed for name in names))
    size, sha256 = (
        int(listed["model"]["uncompressedSize"]),
        str(listed["model"]["uncompressedHash"]).lower(),
    )
    source, target = str(entry["sourceLanguage"]), str(entry["targetLanguage"])
    letters = (code.replace("_", "").replace("-", "") for code in (source, target))
    if not 0 < size <= _MAX_FILE_BYTES or not all(part.isalnum() for part in (sha256, *letters)):
        raise ValueError
    files = [_remote(base, listed["model"], most=size, sha256=sha256)]
    for name in (*vocabularies, _SHORTLIST):
        if name in listed:
            files.append(_remote(base, listed[name], most=_MAX_FILE_BYTES, exact=False))
    stated = entry.get("metrics", {}).get("flores200-plus", {})
    scores = {
        name.removesuffix("22"): float(stated[name])
        for name in ("bleu", "comet", "comet22")
        if name in stated
    }
    pair, architecture = f"{source}-{target}", str(entry["architecture"])
    facts = (_PREFIX + pair, *codes(pair), "Mozilla", "MPL-2.0", size, scores)
    return FirefoxModel(*facts, architecture=architecture, files=tuple(files))


def _remote(base: str, file: dict[str, Any], **sizes: Any) -> RemoteFile:
    name = PurePosixPath(file["path"]).name.removesuffix(".gz")
    return RemoteFile(name, f"{base}/{file['path']}", packed=True, **sizes)


def _preference(entry: dict[str, Any]) -> tuple[bool, int]:
    """Sorts released models first, and larger ones before smaller ones."""
    architecture = entry.get("architecture")
    place = (
        _ARCHITECTURES.index(architecture)
        if architecture in _ARCHITECTURES
        else len(_ARCHITECTURES)
    )
    return not str(entry.get("releaseStatus")).startswith("Release"), place


SOURCE = Source(
    sign="a *.bin of Marian (Firefox)",
    recognises=lambda path: not (path / "decoder.yml").is_file() and bool(find_models(path)),
    read=read_firefox,
    publisher=Publisher(
        prefix=_PREFIX,
        setting="firefox_models",
        download=lambda pair, weights, address, progress: download(
            find(pair, address), weights, progress
        ),
        find_all=find_all,
    ),
)
