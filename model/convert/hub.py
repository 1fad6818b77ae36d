"""Download of models from the Hugging Face hub, pinned to a commit, with checked hashes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from model.model_folder import FolderError

_NEEDED = ("config.json", "source.spm", "target.spm", "vocab.json")
_WANTED = ("generation_config.json", "tokenizer_config.json", "target_vocab.json", "README.md")
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_BLOCK = 1 << 20


def download(repository: str, revision: str = "main", cache: Path | None = None) -> tuple[Path, str]:
    """Downloads a Marian model ("Helsinki-NLP/opus-mt-en-de") into the hub's cache or `cache`.

    Returns the folder and the commit of `revision`. Resumes an interrupted download and shows a progress bar. Raises
    FolderError if there is no connection or no such model, or if a file does not have the hash that the hub states.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise FolderError(f"{repository!r} is not the name of a model on the hub, such as Helsinki-NLP/opus-mt-en-de.")
    import huggingface_hub  # slow to import
    from huggingface_hub import errors

    # The HTTP library whose errors pass through depends on the version of huggingface_hub.
    http_error: type[Exception] = errors.HfHubHTTPError.__bases__[0]
    try:
        info = huggingface_hub.HfApi().model_info(repository, revision=revision, files_metadata=True)
        commit, files = str(info.sha), {file.rfilename: file for file in info.siblings or []}
        names = _select_files(repository, files)
        paths = {
            name: Path(huggingface_hub.hf_hub_download(repository, name, revision=commit, cache_dir=cache))
            for name in names
        }
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise _unreachable(repository, error) from None
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError):
        raise FolderError(
            f"The hub has no model {repository} with the revision {revision}, or it is not public."
        ) from None
    except (http_error, OSError) as error:
        raise _unreachable(repository, error) from None
    for name, path in paths.items():
        _check(repository, path, files[name])
    return paths["config.json"].parent, commit


def _unreachable(repository: str, error: Exception) -> FolderError:
    return FolderError(
        f"{repository} could not be downloaded ({type(error).__name__}): check the connection, or download it elsewhere and "
        "use `attentive import FOLDER`."
    )


def _select_files(repository: str, files: dict[str, Any]) -> list[str]:
    """Returns the names of the files to download; prefers safetensors to a pickle."""
    weights = next((name for name in _WEIGHTS if name in files), None)
    missing = [name for name in _NEEDED if name not in files] + ([] if weights else [" or ".join(_WEIGHTS)])
    if weights is None or missing:
        raise FolderError(
            f"{repository} is not a Marian model in Hugging Face's layout: it lacks {', '.join(missing)}."
        )
    return [*_NEEDED, weights, *(name for name in _WANTED if name in files)]


def _check(repository: str, path: Path, stated: Any) -> None:
    """Checks the hash: SHA-256 for large files, git's SHA-1 of the blob for small ones."""
    large = getattr(stated, "lfs", None)
    expected = large.sha256 if large is not None else stated.blob_id
    if expected is None:
        return
    hashed = hashlib.sha256() if large is not None else hashlib.sha1(usedforsecurity=False)
    if large is None:
        hashed.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            hashed.update(block)
    if hashed.hexdigest() != expected:
        raise FolderError(f"{stated.rfilename} of {repository} is damaged: delete {path} and pull again.")
