"""Download of models from the Hugging Face hub, pinned to a commit."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from model.convert.downloads import NotPublished, Progress, Refused, RemoteFile, fetch, pull_folder, read_url
from model.convert.huggingface.added_tokens import FILES as ADDED
from model.convert.huggingface.reader import check_kind
from model.convert.huggingface.weights import WEIGHTS
from model.convert.published import folder_of
from model.model_folder import FolderError

_TOKENIZER = ("source.spm", "target.spm", "vocab.json")
_MULTILINGUAL = "sentencepiece.bpe.model"
_FILES = (
    *("config.json", *_TOKENIZER, _MULTILINGUAL, "target_vocab.json", "tokenizer.json", "tokenizer_config.json"),
    *("added_tokens.json", "special_tokens_map.json", "generation_config.json", "README.md"),
)
_CTRANSLATE2 = (
    "model.bin",
    "config.json",
    "*vocabulary.json",
    "*vocabulary.txt",
    "*.spm",
    "*.model",
    "README.md",
    *ADDED,
)
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_MAX_FILE_BYTES = 64_000_000_000


@contextmanager
def download(
    repository: str, weights: Path, revision: str = "main", progress: Progress | None = None
) -> Iterator[tuple[Path, str]]:
    """Downloads a model ("Helsinki-NLP/opus-mt-en-de") to a folder under `weights`, which is removed after the block.

    The block gets the folder and its origin.

    HF_ENDPOINT is the address of another hub, HF_TOKEN a token. Raises FolderError with one sentence for every failure.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise NotPublished(f"{repository!r} is not the name of a model on the hub, such as Helsinki-NLP/opus-mt-en-de.")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = os.environ.get("HF_TOKEN")
    with pull_folder(weights, folder_of(repository)) as folder:
        commit, files = _list_files(endpoint, repository, revision, token)
        for old in set(folder.iterdir()) - {folder / f"{file.name}{end}" for file in files for end in ("", ".part")}:
            old.unlink()
        for file in files:
            fetch(file, folder, repository, token, progress)
        yield folder, f"https://huggingface.co/{repository}/tree/{commit}"


def _list_files(endpoint: str, repository: str, revision: str, token: str | None) -> tuple[str, list[RemoteFile]]:
    """Returns the commit of a revision, and the files that an import reads. Raises FolderError."""
    address = f"{endpoint}/api/models/{repository}/revision/{quote(revision, safe='')}?blobs=true"
    try:
        fields = json.loads(read_url(address, repository, token))
        commit = str(fields["sha"])
        present = {str(entry["rfilename"]): entry for entry in fields["siblings"]}
        if (kind := (fields.get("config") or {}).get("model_type")) is not None:
            check_kind(Path(repository), kind)
        if not commit.isalnum():
            raise ValueError
        source = f"{endpoint}/{repository}/resolve/{commit}"
        return commit, [_remote(source, present[name]) for name in _select_files(repository, present)]
    except Refused as error:
        raise _explained(error, endpoint, repository, revision) from None
    except FolderError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FolderError(f"The hub's answer about {repository} is not a list of files.") from None


def _select_files(repository: str, present: dict[str, Any]) -> list[str]:
    """Returns the names of the files to download. Raises FolderError where one is missing."""
    weights: list[str] = next(filter(None, (fnmatch.filter(present, name) for name in WEIGHTS)), [])
    if not weights and "model.bin" in present:
        return [name for name in present if any(fnmatch.fnmatch(name, pattern) for pattern in _CTRANSLATE2)]
    missing = [name for name in ("config.json", *_TOKENIZER) if name not in present]
    if _MULTILINGUAL in present or (
        "tokenizer.json" in present and not any(name in present for name in _TOKENIZER[:2])
    ):
        missing = [name for name in missing if name not in _TOKENIZER]
    if not weights:
        missing.append("model.safetensors or pytorch_model.bin")
    if missing:
        raise NotPublished(
            f"{repository} is not a translation model in Hugging Face's layout: it lacks {', '.join(missing)}."
        )
    return [*(name for name in _FILES if name in present), *weights]


def _remote(source: str, entry: dict[str, Any]) -> RemoteFile:
    """Returns a file of the list. Large files have a SHA-256, the others git's SHA-1."""
    name, size, sha256 = entry["rfilename"], entry["size"], (entry.get("lfs") or {}).get("sha256")
    if type(size) is not int or not 0 <= size <= _MAX_FILE_BYTES:
        raise ValueError
    return RemoteFile(name, f"{source}/{name}", size, sha256=sha256, git_sha1=None if sha256 else entry.get("blobId"))


def _explained(error: Refused, endpoint: str, repository: str, revision: str) -> FolderError:
    """Returns what the hub means by an error code."""
    if error.code == "GatedRepo":
        page = f"{endpoint}/{repository}"
        return NotPublished(
            f"{repository} is gated: accept its conditions on {page} and set HF_TOKEN to a token of your account."
        )
    if error.code == "RevisionNotFound":
        return NotPublished(f"{repository} has no revision {revision}.")
    if error.status in (401, 403) or error.code == "RepoNotFound":  # 401 is also that of a model that does not exist
        return NotPublished(f"The hub has no model {repository}, or it is private and HF_TOKEN has no access to it.")
    return error
