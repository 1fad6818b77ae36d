"""Import, download and export of .argosmodel packages of Argos Translate and LibreTranslate, zip
archives or unpacked.

A package has one folder with metadata.json, a CTranslate2 model in `model`, and sentencepiece.model
for both languages. Argos's index (index.json) has no hashes; the import checks those of the
archive.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from model.convert.ctranslate2.export import export_ctranslate2
from model.convert.ctranslate2.reader import DEFAULTS, read_ctranslate2
from model.convert.downloads import NotPublished, Progress, RemoteFile, fetch, pull_folder, read_url
from model.convert.languages import language_code
from model.convert.published import folder_of
from model.convert.source_files import Export, Imported, Publisher, Source, read_object
from model.convert.vocabulary import folder_vocabularies
from model.model_folder import FolderError, ImportRefused, ModelFolder

PACKAGE_SUFFIX = ".argosmodel"
_MAX_FILES = 2_000
_MAX_BYTES = 4_000_000_000
_PREFIX = "argos/"
_MAX_FILE_BYTES = 2_000_000_000
METADATA = "metadata.json"
SENTENCEPIECE = "sentencepiece.model"
_CODES = {"zh-Hant": "zt", "pt-BR": "pb"}
"""Our codes -> Argos's own."""


def read_argos(path: Path) -> Imported:
    """Reads a package of one language pair. Raises ImportRefused."""
    if path.is_dir():
        return _read_folder(path)
    with tempfile.TemporaryDirectory(prefix="attentive-") as scratch:
        folder = _unpack(path, Path(scratch))
        try:
            return _read_folder(folder)
        except ImportRefused as error:
            raise ImportRefused(path, error.reasons) from None


def _read_folder(path: Path) -> Imported:
    metadata = read_object(path / METADATA)
    if (kind := metadata.get("type") or "translate") != "translate":
        raise ImportRefused(
            path, [f"it is a package of the type {kind!r:.40}, which translates nothing"]
        )
    source, target = _code(path, metadata, "from_code"), _code(path, metadata, "to_code")
    if not (path / SENTENCEPIECE).is_file():
        bpe = "a BPE vocabulary (bpe.model), whose words are those of Moses's tokenizer"
        tokenizer = bpe if (path / "bpe.model").is_file() else "no tokenizer"
        raise ImportRefused(
            path, [f"it has {tokenizer}: use a package of the pair with {SENTENCEPIECE}"]
        )
    imported = read_ctranslate2(path / "model", (source, target), path / SENTENCEPIECE)
    first = metadata.get("target_prefix") or None
    if first is not None and first not in (imported.target_vocabulary or imported.vocabulary):
        raise ImportRefused(
            path, [f"its targets begin with {first!r}, which is not in the vocabulary"]
        )
    # The package is for one pair: tags in its vocabulary do not choose between languages.
    # as Argos calls CTranslate2
    generation = dataclasses.replace(DEFAULTS, beam_size=4, length_penalty=0.2)
    return dataclasses.replace(
        imported, tagged=False, language_pieces={}, first_piece=first, generation=generation
    )


def _code(path: Path, metadata: dict[str, Any], key: str) -> str:
    code = metadata.get(key)
    if not isinstance(code, str) or not code:
        raise ImportRefused(path, [f"{METADATA} lacks {key}"])
    return language_code(code)


def _unpack(file: Path, scratch: Path) -> Path:
    """Unpacks a package to `scratch` and returns its folder. Raises ImportRefused."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if len(entries) > _MAX_FILES:
                raise ImportRefused(file, [f"the package has more than {_MAX_FILES} files"])
            # no more than that is unpacked
            if sum(info.file_size for info in entries) > _MAX_BYTES:
                raise ImportRefused(file, ["the package claims to hold more than 4 GB"])
            archive.extractall(scratch)
    except ImportRefused:
        raise
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,
        NotImplementedError,
        ValueError,
    ):
        refusal = ImportRefused(file, ["the file is not readable as a package (zip archive)"])
        refusal.final = False  # a download may have damaged it
        raise refusal from None
    if (metadata := next(scratch.glob(f"*/{METADATA}"), None)) is None:
        raise ImportRefused(file, [f"the package has no {METADATA}"])
    return metadata.parent


def export_argos(
    folder: ModelFolder,
    output: Path,
    source: str = "",
    target: str = "",
    *,
    quantization: str | None = None,
    language_name: Callable[[str], str] = str,
) -> None:
    """Writes the package `output` for one pair; `source` and `target` may be empty if there is only
    one.

    Argos puts nothing before a sentence, so CTranslate2 itself adds the tag of the target language
    (`add_source_bos`). `language_name` returns the name of a code. Raises FolderError.
    """
    source, target = _pair(folder, source, target)
    tag = folder.tags.get(target)
    if tag is not None and not all(tag in pieces for pieces in folder_vocabularies(folder)):
        raise FolderError(
            f"The tag {tag} is not in both vocabularies, so an Argos package cannot state it."
        )
    if folder.first_tokens:
        raise FolderError(
            "Argos packages cannot represent this model: its targets begin with a language token."
        )
    if output.exists():
        raise FolderError(f"{output} exists already.")
    name = f"translate-{source}_{target}"
    with tempfile.TemporaryDirectory(prefix="attentive-") as scratch:
        model = Path(scratch) / "model"
        export_ctranslate2(folder, model, quantization=quantization, source_start=tag)
        files = [path for path in sorted(model.iterdir()) if path.suffix in (".bin", ".json")]
        with zipfile.ZipFile(Path(scratch) / "package", "x", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{name}/{METADATA}", _metadata(folder, source, target, language_name))
            archive.write(folder.path / folder.tokenizer.source, f"{name}/{SENTENCEPIECE}")
            if (folder.path / "README.md").is_file():
                archive.write(folder.path / "README.md", f"{name}/README.md")
            for file in files:
                archive.write(file, f"{name}/model/{file.name}")
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(scratch) / "package", output)


def _pair(folder: ModelFolder, source: str, target: str) -> tuple[str, str]:
    fitting = [pair for pair in folder.pairs if source in ("", pair[0]) and target in ("", pair[1])]
    if len(fitting) != 1:
        raise FolderError(
            f"An Argos package has one language pair, and {len(fitting)} pairs of {folder.name} "
            "fit: choose with --source "
            "and --target."
        )
    return fitting[0]


def _metadata(
    folder: ModelFolder, source: str, target: str, language_name: Callable[[str], str]
) -> str:
    return json.dumps(
        {
            "package_version": "1.0",
            "argos_version": "1.9",
            "type": "translate",
            "from_code": _CODES.get(source, source),
            "from_name": language_name(source),
            "to_code": _CODES.get(target, target),
            "to_name": language_name(target),
            "attentive": {"name": folder.name, "license": folder.license, "origin": folder.origin},
        },
        indent=2,
        ensure_ascii=False,
    )


@contextmanager
def download(
    pair: str, weights: Path, address: str, progress: Progress | None = None
) -> Iterator[tuple[Path, str]]:
    """Downloads the package of a pair in Argos's codes (en-zt) to a folder under `weights`, which
    is removed after the block. Yields the package and its origin. Raises FolderError."""
    if (url := packages(address).get(pair)) is None:
        raise NotPublished(f"Argos publishes no package for {pair}; {address} lists its packages.")
    name = PurePosixPath(url).name
    with pull_folder(weights, f"{folder_of(_PREFIX + pair)}--{name}") as folder:
        fetch(
            RemoteFile(name, url, _MAX_FILE_BYTES, exact=False),
            folder,
            _PREFIX + pair,
            progress=progress,
        )
        try:
            yield folder / name, url
        except FolderError:
            (folder / name).unlink()  # it may be damaged
            raise


def packages(address: str) -> dict[str, str]:
    """Returns pair -> address of its package. Raises FolderError."""
    try:
        return {
            f"{entry['from_code']}-{entry['to_code']}": str(entry["links"][0])
            for entry in json.loads(read_url(address, "The index of Argos's packages"))
            if entry.get("type", "translate") == "translate"
        }
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        raise FolderError(f"{address} is not an index of Argos's packages.") from None


PUBLISHER = Publisher(prefix=_PREFIX, setting="argos_models", download=download)
SOURCE = Source(
    sign=f"a file *{PACKAGE_SUFFIX} (Argos)",
    recognises=lambda path: path.suffix == PACKAGE_SUFFIX or (path / METADATA).is_file(),
    read=read_argos,
    publisher=PUBLISHER,
    export=Export(name="argos", write=export_argos, quantizes=True, one_pair=True),
)
