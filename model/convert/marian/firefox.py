"""Firefox's models (Bergamot): import of a folder with the files of one language pair, and download
from the list that Mozilla publishes (models.json).

A folder has `model.ende.intgemm.alphas.bin`, `vocab.ende.spm` (or `srcvocab.ende.spm` and
`trgvocab.ende.spm`), `lex.50.50.ende.s2t.bin` and metadata.json. The list has `baseUrl`, and for
each pair its models: architecture, release status, paths of gzip files, size and SHA-256 of the
unpacked weights, and scores on FLORES-200. It has no hash of the other files; gzip's CRC is
checked.
"""

from __future__ import annotations

import json
import logging
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from model.config import ModelConfig
from model.convert.downloads import NotPublished, Progress, RemoteFile, fetch, pull_folder, read_url
from model.convert.languages import Languages, language_code
from model.convert.marian.archives import BINARY_VERSION
from model.convert.marian.reader import read_model
from model.convert.published import PublishedModel, codes, folder_of
from model.convert.source_files import (
    Imported,
    Publisher,
    Source,
    read_bytes,
    read_optional,
    read_sentencepiece,
)
from model.model_folder import FolderError, Generation, ImportRefused
from model.shortlist import Shortlist

log = logging.getLogger(__name__)
METADATA = "metadata.json"
_MODELS = "*.intgemm*.bin"
_SHORTLISTS = "lex.*.bin"
_SHORTLIST_MAGIC = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")
_MAX_SHORTLIST_BYTES = 1 << 28
_CODE = "([a-z]{2,3}(?:_[a-z]{2,4})?)"
_PAIR = re.compile(rf"[^.]*\.(?:(en){_CODE}|{_CODE}(en)|([a-z]{{2}}){_CODE})\.")
_PREFIX = "firefox/"
_ARCHITECTURES = ("base-memory", "base", "tiny")
_VOCABULARIES = (("vocab",), ("srcVocab", "trgVocab"))
_SHORTLIST = "lexicalShortlist"
_MAX_FILE_BYTES = 1_000_000_000
_INCOMPLETE = (KeyError, TypeError, ValueError, AttributeError, StopIteration, RecursionError)
_NO_LIST = "{} is not a list of Firefox's models."


def read_firefox(path: Path) -> Imported:
    """Reads a folder with a model of Firefox. Raises ImportRefused with all reasons. Marian never
    writes the unknown piece, so it is forbidden here too."""
    file, vocabularies = _find_files(path)
    model = read_model(file, vocabularies)
    config, target = model["config"], model["target_vocabulary"] or model["vocabulary"]
    published = read_optional(path / METADATA)
    return Imported(
        **model,
        source_pieces=read_sentencepiece(vocabularies[0]),
        target_pieces=read_sentencepiece(vocabularies[1]),
        languages=_languages(file, published),
        license="MPL-2.0" if "sourceLanguage" in published else "",
        generation=Generation(forbidden=(target["<unk>"],)),
        shortlist=_read_shortlist(path, config),
        scores=_scores(published.get("flores")),
    )


def _scores(stated: Any) -> dict[str, float]:
    numbers = (
        {name: stated.get(name) for name in ("bleu", "comet")} if isinstance(stated, dict) else {}
    )
    return {
        name: number
        for name, number in numbers.items()
        if isinstance(number, (int, float)) and 0 < number <= 100
    }


def find_models(folder: Path) -> list[Path]:
    """Returns the int8 models of a folder, by Mozilla's names, else the float32 models, by their
    content."""

    def is_model(file: Path) -> bool:
        with file.open("rb") as opened:
            return opened.read(len(BINARY_VERSION)) == BINARY_VERSION

    return sorted(folder.glob(_MODELS)) or [
        file for file in sorted(folder.glob("*.bin")) if is_model(file)
    ]


def _find_files(folder: Path) -> tuple[Path, tuple[Path, Path]]:
    """Returns the model, source and target vocabulary, by Mozilla's names."""
    reasons = []
    models = find_models(folder)
    if len(models) != 1:
        reasons.append(f"it has {len(models)} models (*.bin): give one folder a model")
    both = [*folder.glob("srcvocab.*.spm"), *folder.glob("trgvocab.*.spm")]
    vocabularies = both or sorted(folder.glob("*.spm"))
    if len(both) == 1:
        reasons.append(
            f"it has {both[0].name} without the vocabulary of the other side (srcvocab and "
            "trgvocab)"
        )
    if not 1 <= len(vocabularies) <= 2:
        reasons.append(f"it has {len(vocabularies)} vocabularies (*.spm) instead of one or two")
    if reasons:
        raise ImportRefused(folder, reasons)
    return models[0], (vocabularies[0], vocabularies[-1])


def _languages(model: Path, published: dict[str, Any]) -> Languages:
    """Returns the languages of the metadata, else of the file name
    (model.ende.intgemm.alphas.bin)."""
    if "sourceLanguage" in published and "targetLanguage" in published:
        return language_code(str(published["sourceLanguage"])), language_code(
            str(published["targetLanguage"])
        )
    named = _PAIR.match(model.name)
    source, target = [code for code in named.groups() if code] if named else (None, None)
    return source and language_code(source), target and language_code(target)


def _read_shortlist(folder: Path, config: ModelConfig) -> Shortlist | None:
    """Returns the shortlist of a folder if it is readable. Without it a model is slower, not
    worse."""
    files = sorted(folder.glob(_SHORTLISTS))
    try:
        if len(files) > 1:
            raise ImportRefused(
                folder, [f"it has {len(files)} shortlists ({_SHORTLISTS}): keep one of the files"]
            )
        return read_shortlist(files[0], config) if files else None
    except ImportRefused as refusal:
        log.warning("The model is imported without a shortlist. %s", refusal)
        return None


def read_shortlist(file: Path, config: ModelConfig) -> Shortlist:
    """Reads an untrusted shortlist in Marian's binary format. Raises ImportRefused.

    Six numbers (uint64): a constant, a checksum, the number of first tokens, of best targets, of
    offsets and of targets. Then the offsets (uint64) and the targets (uint32). The checksum is
    ignored: every number is checked. Offsets after the highest source token with targets may be
    missing.
    """
    data = read_bytes(file, _MAX_SHORTLIST_BYTES)
    sources = config.source_vocab_size or config.vocab_size
    if len(data) < _HEADER.size:
        raise ImportRefused(file, ["the file is too short for a shortlist"])
    magic, _, first, _, offset_count, target_count = _HEADER.unpack_from(data)
    if magic != _SHORTLIST_MAGIC:
        raise ImportRefused(file, ["the file is not a binary shortlist of Marian"])
    if len(data) != _HEADER.size + 8 * offset_count + 4 * target_count:
        raise ImportRefused(file, ["the file does not have the size that its header states"])
    offsets = np.frombuffer(data, "<u8", offset_count, _HEADER.size)
    if not offset_count or (offsets > target_count).any():
        raise ImportRefused(file, [f"its offsets are not those of {target_count} targets"])
    targets = np.frombuffer(data, "<u4", target_count, _HEADER.size + 8 * offset_count)
    if (targets >= config.vocab_size).any():
        raise ImportRefused(
            file, [f"its targets are outside the vocabulary of {config.vocab_size}"]
        )
    used = offsets[: sources + 1].astype(np.int64)
    used = np.pad(used, (0, sources + 1 - len(used)), "edge")
    shared = config.source_vocab_size is None and config.tied_embeddings
    allowed = targets[: used[-1]].astype(np.int32)
    try:
        return Shortlist(used, allowed, min(first, config.vocab_size), shared, config.vocab_size)
    except ValueError as error:
        raise ImportRefused(file, [str(error)]) from None


@dataclass(frozen=True, slots=True)
class FirefoxModel(PublishedModel):
    """A model of the list. `files` are the weights, one or two vocabularies, and the shortlist if
    there is one."""

    architecture: str = ""
    files: tuple[RemoteFile, ...] = ()


def find(pair: str, address: str) -> FirefoxModel:
    """Returns the model of a pair such as en-de in the list at `address`: preferably a released
    one, then the largest architecture. Raises FolderError."""
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
    """Returns the model of each pair that `find` would return. Raises FolderError."""
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
    """Returns the best of a pair's entries. Raises one of _INCOMPLETE."""
    complete = sorted(
        (entry for entry in entries if "model" in entry.get("files", {})), key=_preference
    )
    return _published(base, complete[0]) if complete else None


@contextmanager
def download(
    model: FirefoxModel, weights: Path, progress: Progress | None = None
) -> Iterator[tuple[Path, str]]:
    """Downloads and unpacks the files of a model to a folder under `weights`, which is removed
    after the block. Raises FolderError."""
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
    """Returns an entry of the list. Raises KeyError, TypeError or ValueError for missing files."""
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
