"""Download of models from the Hugging Face hub, pinned to a commit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from model.convert.downloads import (
    NotPublished,
    Progress,
    Refused,
    RemoteFile,
    fetch,
    pull_folder,
    read_url,
)
from model.convert.families import SOURCES, unsupported
from model.convert.published import folder_of
from model.model_folder import FolderError, ImportRefused

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_MAX_FILE_BYTES = 64_000_000_000


@contextmanager
def download(
    repository: str, weights: Path, revision: str = "main", progress: Progress | None = None
) -> Iterator[tuple[Path, str]]:
    """Downloads a model ("Helsinki-NLP/opus-mt-en-de") to a folder under `weights`, which is
    removed after the block. Yields the folder and its origin.

    HF_ENDPOINT is the address of another hub, HF_TOKEN a token. Raises FolderError.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise NotPublished(
            f"{repository!r} is not the name of a model on the hub, such as "
            "Helsinki-NLP/opus-mt-en-de."
        )
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = os.environ.get("HF_TOKEN")
    with pull_folder(weights, folder_of(repository)) as folder:
        commit, files = _list_files(endpoint, repository, revision, token)
        for old in set(folder.iterdir()) - {
            folder / f"{file.name}{end}" for file in files for end in ("", ".part")
        }:
            old.unlink()
        for file in files:
            fetch(file, folder, repository, token, progress)
        yield folder, f"https://huggingface.co/{repository}/tree/{commit}"


def _list_files(
    endpoint: str, repository: str, revision: str, token: str | None
) -> tuple[str, list[RemoteFile]]:
    """Returns the commit of a revision, and the files that an import reads. Raises FolderError."""
    address = f"{endpoint}/api/models/{repository}/revision/{quote(revision, safe='')}?blobs=true"
    try:
        fields = json.loads(read_url(address, repository, token))
        commit = str(fields["sha"])
        present = {str(entry["rfilename"]): entry for entry in fields["siblings"]}
        kind = (fields.get("config") or {}).get("model_type")
        if not commit.isalnum():
            raise ValueError
        source = f"{endpoint}/{repository}/resolve/{commit}"
        return commit, [
            _remote(source, present[name]) for name in _select_files(repository, kind, present)
        ]
    except Refused as error:
        raise _explained(error, endpoint, repository, revision) from None
    except FolderError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FolderError(f"The hub's answer about {repository} is not a list of files.") from None


def _select_files(repository: str, kind: str | None, present: dict[str, Any]) -> list[str]:
    """Returns the names of the files to download, for the family that lacks the fewest. Raises
    FolderError if one is missing, ImportRefused for an unknown type of transformers."""
    families = [
        source
        for source in SOURCES
        if source.needs and source.model_type in ("", kind or source.model_type)
    ]
    if kind is not None and not any(source.model_type == kind for source in families):
        raise ImportRefused(Path(repository), [unsupported(kind)])
    chosen = min(
        families, key=lambda source: (len(source.files(present)[1]), not source.model_type)
    )
    names, missing = chosen.files(present)
    if missing:
        raise NotPublished(
            f"{repository} is not a translation model that can be imported: it lacks "
            f"{', '.join(missing)}."
        )
    return names


def _remote(source: str, entry: dict[str, Any]) -> RemoteFile:
    """Large files have a SHA-256, the others git's SHA-1."""
    name, size, sha256 = entry["rfilename"], entry["size"], (entry.get("lfs") or {}).get("sha256")
    if type(size) is not int or not 0 <= size <= _MAX_FILE_BYTES:
        raise ValueError
    return RemoteFile(
        name,
        f"{source}/{name}",
        size,
        sha256=sha256,
        git_sha1=None if sha256 else entry.get("blobId"),
    )


def _explained(error: Refused, endpoint: str, repository: str, revision: str) -> FolderError:
    if error.code == "GatedRepo":
        page = f"{endpoint}/{repository}"
        return NotPublished(
            f"{repository} is gated: accept its conditions on {page} and set HF_TOKEN to a token "
            "of your account."
        )
    if error.code == "RevisionNotFound":
        return NotPublished(f"{repository} has no revision {revision}.")
    # 401 is also that of a model that does not exist
    if error.status in (401, 403) or error.code == "RepoNotFound":
        return NotPublished(
            f"The hub has no model {repository}, or it is private and HF_TOKEN has no access to it."
        )
    return error
