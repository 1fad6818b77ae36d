"""Download of packages from the index that Argos publishes (index.json). It has no hashes; the import checks the checksums
of the archive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from model.convert.downloads import NotPublished, Progress, RemoteFile, fetch, pull_folder, read_url
from model.convert.published import folder_of
from model.convert.source import Publisher
from model.model_folder import FolderError

_PREFIX = "argos/"
_MAX_FILE_BYTES = 2_000_000_000


@contextmanager
def download(pair: str, weights: Path, address: str, progress: Progress | None = None) -> Iterator[tuple[Path, str]]:
    """Downloads the package of a pair in Argos's codes (en-zt) to a folder under `weights`, which is removed after the
    block. The block gets the package and its origin. Raises FolderError with one sentence for every failure."""
    if (url := packages(address).get(pair)) is None:
        raise NotPublished(f"Argos publishes no package for {pair}; {address} lists its packages.")
    name = PurePosixPath(url).name
    with pull_folder(weights, f"{folder_of(_PREFIX + pair)}--{name}") as folder:
        fetch(RemoteFile(name, url, _MAX_FILE_BYTES, exact=False), folder, _PREFIX + pair, progress=progress)
        try:
            yield folder / name, url
        except FolderError:
            (folder / name).unlink()  # it may be damaged
            raise


def packages(address: str) -> dict[str, str]:
    """Returns the address of the package of each pair. Raises FolderError."""
    try:
        return {
            f"{entry['from_code']}-{entry['to_code']}": str(entry["links"][0])
            for entry in json.loads(read_url(address, "The index of Argos's packages"))
            if entry.get("type", "translate") == "translate"
        }
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        raise FolderError(f"{address} is not an index of Argos's packages.") from None


PUBLISHER = Publisher(prefix=_PREFIX, setting="argos_models", download=download)
