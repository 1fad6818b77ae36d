"""Download of Firefox's models from the list that Mozilla publishes (models.json), with the checked hash of the weights.

The list has `baseUrl`, and for each pair such as en-de its models: architecture, release status, paths of gzip files, size
and SHA-256 of the unpacked weights, and scores on FLORES-200. For the other files it has no hash; gzip's CRC is checked.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any

from model.convert.languages import language_code
from model.convert.marian.firefox import METADATA
from model.convert.pull_folder import Downloaded, FolderLock, unwritable
from model.model_folder import FolderError

PREFIX = "firefox/"
_ARCHITECTURES = ("base-memory", "base", "tiny")
_VOCABULARIES = (("vocab",), ("srcVocab", "trgVocab"))
_SHORTLIST = "lexicalShortlist"
_MAX_LIST_BYTES = 20_000_000
_MAX_FILE_BYTES = 1_000_000_000
_BLOCK = 1 << 20
_SECONDS = 30
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True, slots=True)
class Published:
    """A model of the list. `urls` are those of the weights, of one or two vocabularies, and of the shortlist if there is
    one, gzip; `size` and `sha256` those of the unpacked weights."""

    source: str
    target: str
    architecture: str
    urls: tuple[str, ...]
    size: int
    sha256: str
    scores: dict[str, float]

    def __str__(self) -> str:
        shown = [f"{name} {self.scores[key]:.{digits}f}" for key, name, digits in _SCORES if key in self.scores]
        scores = f"; {', '.join(shown)} on FLORES-200, measured by Mozilla" if shown else ""
        return (
            f"{PREFIX}{self.source}-{self.target}: {self.architecture}, {self.size / 1e6:,.1f} MB of weights; "
            f"licence: MPL-2.0{scores}."
        )


_SCORES = (("bleu", "BLEU", 1), ("comet22", "COMET", 4), ("comet", "COMET", 4))


def find(pair: str, address: str) -> Published:
    """Returns the model of a pair such as en-de in the list at `address`: a released one if there is one, the largest
    architecture first. Raises FolderError with one sentence."""
    listed = _read_list(address)
    try:
        base, models = str(listed["baseUrl"]).rstrip("/"), dict(listed["models"])
        named = {_our_codes(name): name for name in models}
        entries = models.get(pair) or models.get(named.get(_our_codes(pair)), [])
        entries = [entry for entry in entries if "model" in entry.get("files", {})]
        found = [_published(base, entry) for entry in sorted(entries, key=_preference)[:1]]
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
        raise FolderError(f"{address} is not a list of Firefox's models.") from None
    if not found:
        raise FolderError(f"Mozilla publishes no model for {pair}; it has {_near(pair, list(models))}.")
    return found[0]


def download(model: Published, weights: Path) -> Downloaded:
    """Downloads and unpacks the files of a model to a folder under `weights`. Files of an interrupted download that are
    complete are not downloaded again. Raises FolderError with one sentence for every failure."""
    folder = weights / ".pull" / f"firefox--{model.source}-{model.target}-{model.sha256[:12]}"
    name = f"{PREFIX}{model.source}-{model.target}"
    try:
        lock = FolderLock(folder)
        try:
            _fetch_all(model, folder)
        except BaseException:
            lock.release()
            raise
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise _unreachable(name, error) from None
    except OSError as error:
        raise unwritable(name, weights, error) from None
    return Downloaded(folder, model.sha256, lock)


def _fetch_all(model: Published, folder: Path) -> None:
    for number, url in enumerate(model.urls):
        file = folder / PurePosixPath(url).name.removesuffix(".gz")
        if not file.is_file():
            _fetch(url, file, model.size if number == 0 else _MAX_FILE_BYTES, model.sha256 if number == 0 else None)
    metadata = {"sourceLanguage": model.source, "targetLanguage": model.target, "architecture": model.architecture}
    (folder / METADATA).write_text(json.dumps(metadata) + "\n", encoding="utf-8")


def _read_list(address: str) -> dict[str, Any]:
    if not address.startswith(("http://", "https://")):
        raise FolderError(f"{address!r} is not an address of a list of Firefox's models.")
    try:
        with _open(address) as answer:
            fields = json.loads(answer.read(_MAX_LIST_BYTES))
    except (OSError, HTTPException) as error:
        raise _unreachable("The list of Firefox's models", error) from None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise FolderError(f"{address} is not a list of Firefox's models.")
    return fields


def _published(base: str, entry: dict[str, Any]) -> Published:
    """Returns an entry of the list. Raises KeyError, TypeError or ValueError for one without the necessary files."""
    files = entry["files"]
    vocabularies = next(names for names in _VOCABULARIES if all(name in files for name in names))
    shortlist = (_SHORTLIST,) if _SHORTLIST in files else ()
    urls = tuple(f"{base}/{files[name]['path']}" for name in ("model", *vocabularies, *shortlist))
    size, sha256 = int(files["model"]["uncompressedSize"]), str(files["model"]["uncompressedHash"]).lower()
    if not 0 < size <= _MAX_FILE_BYTES or not all(url.startswith(("http://", "https://")) for url in urls):
        raise ValueError
    scores = {key: float(value) for key, value in entry.get("metrics", {}).get("flores200-plus", {}).items()}
    source, target = str(entry["sourceLanguage"]), str(entry["targetLanguage"])
    if not sha256.isalnum() or not all(code.replace("_", "").replace("-", "").isalnum() for code in (source, target)):
        raise ValueError
    return Published(source, target, str(entry["architecture"]), urls, size, sha256, scores)


def _preference(entry: dict[str, Any]) -> tuple[bool, int]:
    """Sorts released models first, and larger ones before smaller ones."""
    architecture = entry.get("architecture")
    place = _ARCHITECTURES.index(architecture) if architecture in _ARCHITECTURES else len(_ARCHITECTURES)
    return not str(entry.get("releaseStatus")).startswith("Release"), place


def _our_codes(pair: str) -> str:
    """Returns a pair such as en-zh_hant in our codes: en-zh-Hant."""
    return "-".join(language_code(code) for code in pair.split("-", 1))


def _near(pair: str, names: list[str]) -> str:
    """Returns the pairs that share a language with `pair`, else the number of all pairs."""
    source, _, target = pair.partition("-")
    near = [name for name in names if name.startswith(f"{source}-") or name.endswith(f"-{target}")]
    return (
        ", ".join(sorted(near)[:12]) + (" and more" if len(near) > 12 else "") if near else f"{len(names)} other pairs"
    )


def _fetch(url: str, file: Path, most: int, sha256: str | None) -> None:
    """Downloads a gzip file and unpacks it to `file`, at most `most` bytes. Raises FolderError, OSError."""
    packed, part = file.with_name(f"{file.name}.gz"), file.with_name(f"{file.name}.part")
    with _open(url) as answer, packed.open("wb") as out:
        shutil.copyfileobj(answer, out, _BLOCK)
    hashed, done = hashlib.sha256(), 0
    try:
        with gzip.open(packed) as unpacked, part.open("wb") as out:
            while done <= most and (block := unpacked.read(_BLOCK)):
                out.write(block)
                hashed.update(block)
                done += len(block)
        right = done <= most and sha256 in (None, hashed.hexdigest())
    except _BROKEN:
        right = False
    packed.unlink()
    if not right:
        part.unlink(missing_ok=True)
        raise FolderError(f"{file.name} was damaged on the way and is deleted: pull it again.")
    part.rename(file)


def _open(url: str) -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": "attentive"})  # noqa: S310 - checked by the callers
    return urllib.request.urlopen(request, timeout=_SECONDS)  # noqa: S310


def _unreachable(name: str, error: Exception) -> FolderError:
    """Returns the error for a server that refuses (its status is stated) or does not answer."""
    otherwise = "or download its files elsewhere and use `attentive import FOLDER`"
    if not isinstance(error, urllib.error.HTTPError):
        cause = getattr(error, "reason", None) or error
        reason = getattr(cause, "strerror", None) or type(cause).__name__
        return FolderError(f"{name} could not be downloaded ({reason}): check the connection, {otherwise}.")
    error.close()
    if error.code == 429:
        seconds = error.headers.get("Retry-After", "")
        when = f"in {seconds} seconds" if seconds.isdecimal() else "later"
        return FolderError(f"{name}: the server refuses further requests from this address (429): try again {when}.")
    return FolderError(f"{name} could not be downloaded ({error.code}): try again later, {otherwise}.")
