"""Download of models from the Hugging Face hub, pinned to a commit, with checked hashes.

Files go to a folder `.pull` beside the model folders and are removed after the import, so a model is on the disk once.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from model.convert.hub_requests import Hub, HubUnreachable, RemoteFile
from model.convert.pull_folder import Downloaded, FolderLock, unwritable
from model.model_folder import FolderError

_CONFIG = "config.json"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_TOKENIZERS = (("source.spm", "target.spm", "vocab.json"), ("sentencepiece.bpe.model",))
_WANTED = (
    "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json", "target_vocab.json",
    "vocab.json", "README.md",
)  # fmt: skip
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_LISTING = "listing.json"
_MARGIN = 1_000_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a model at one commit of the hub."""

    revision: str
    commit: str
    files: tuple[RemoteFile, ...]


def download(repository: str, weights: Path, revision: str = "main", hub: Hub | None = None) -> Downloaded:
    """Downloads a model ("Helsinki-NLP/opus-mt-en-de") to a folder under `weights`.

    An interrupted download continues where it stopped. Without a connection, files of an earlier download are used, and
    those in the cache of huggingface_hub. Only one process downloads a model at a time. Raises FolderError with one
    sentence for every failure. A file with a wrong hash is deleted.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise FolderError(f"{repository!r} is not the name of a model on the hub, such as Helsinki-NLP/opus-mt-en-de.")
    hub = hub or Hub()
    folder = weights / ".pull" / repository.replace("/", "--")
    try:
        lock = FolderLock(folder)
        try:
            return _download(hub, repository, revision, folder, lock)
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        raise unwritable(repository, weights, error) from None


def _download(hub: Hub, repository: str, revision: str, folder: Path, lock: FolderLock) -> Downloaded:
    """Downloads a model to a locked folder. Raises FolderError, OSError."""
    try:
        listing = _listing(hub, repository, revision)
    except HubUnreachable as error:
        if (commit := _kept(folder, revision)) is not None:
            return Downloaded(folder, commit, lock)
        if (cached := hub.cached(repository, revision, _CONFIG)) is not None:
            return Downloaded(cached, cached.name, lock, temporary=False)
        raise FolderError(str(error)) from None
    try:
        _prepare(folder, listing)
        for file in listing.files:
            hub.fetch(repository, listing.commit, file, folder)
    except HubUnreachable as error:
        raise FolderError(str(error)) from None
    return Downloaded(folder, listing.commit, lock)


def _listing(hub: Hub, repository: str, revision: str) -> Listing:
    """Asks the hub for the files of a model and selects those that an import reads."""
    commit, files = hub.files(repository, revision)
    names = _select_files(repository, set(files))
    for name in names:
        if name.endswith(".index.json"):
            names = [*names, *_shards(repository, hub.read(repository, commit, files[name]), set(files))]
    return Listing(revision, commit, tuple(files[name] for name in names))


def _select_files(repository: str, present: set[str]) -> list[str]:
    """Returns the names of the files to download; prefers safetensors to a pickle."""
    weights = [name for stem in _WEIGHTS for name in (stem, f"{stem}.index.json") if name in present][:1]
    tokenizer = next((names for names in _TOKENIZERS if present.issuperset(names)), ())
    missing = [_CONFIG] if _CONFIG not in present else []
    if not tokenizer:
        missing.append(" or ".join(_TOKENIZERS[-1]) if _TOKENIZERS[-1][0] in present else _lacking(present))
    if not weights:
        missing.append(" or ".join(_WEIGHTS))
    if missing:
        raise FolderError(
            f"{repository} is not a translation model in Hugging Face's layout: it lacks {', '.join(missing)}."
        )
    return list(dict.fromkeys([_CONFIG, *tokenizer, *(name for name in _WANTED if name in present), *weights]))


def _lacking(present: set[str]) -> str:
    return ", ".join(name for name in _TOKENIZERS[0] if name not in present)


def _shards(repository: str, index: bytes, present: set[str]) -> list[str]:
    """Returns the names of the weight files that an index names."""
    try:
        names = sorted(set(json.loads(index)["weight_map"].values()))
        if not all(name in present and "/" not in name for name in names):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FolderError(f"The index of the weights of {repository} names files that it does not have.") from None
    return names


def _prepare(folder: Path, listing: Listing) -> None:
    """Makes room for a download: removes files of other commits and checks the free space. Raises FolderError."""
    if _read_listing(folder) != listing:
        known = {file.name for file in listing.files}
        for path in folder.iterdir():
            if path.name.removesuffix(".part") not in known:
                path.unlink()
    needed = sum(file.size for file in listing.files)
    present = sum(path.stat().st_size for path in folder.iterdir())
    free = shutil.disk_usage(folder).free
    if needed - present + _MARGIN > free:
        raise FolderError(
            f"The disk of {folder.parent.parent} is too full: the download needs {(needed - present) / 1e6:,.0f} MB and "
            f"{free / 1e6:,.0f} MB are free."
        )
    (folder / _LISTING).write_text(json.dumps(asdict(listing)) + "\n", encoding="utf-8")


def _kept(folder: Path, revision: str) -> str | None:
    """Returns the commit of an earlier complete download of a revision, None if there is none."""
    listing = _read_listing(folder)
    if listing is None or revision not in (listing.revision, listing.commit):
        return None
    return listing.commit if all((folder / file.name).is_file() for file in listing.files) else None


def _read_listing(folder: Path) -> Listing | None:
    try:
        fields: Any = json.loads((folder / _LISTING).read_text(encoding="utf-8"))
        files = tuple(RemoteFile(**file) for file in fields.pop("files"))
        return Listing(**fields, files=files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
