"""Import of an .argosmodel package: a zip archive, or its unpacked folder.

It has one folder with metadata.json, a CTranslate2 model in `model`, and sentencepiece.model for both languages.
"""

from __future__ import annotations

import dataclasses
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

from model.convert.argos.export import METADATA, SENTENCEPIECE, export_argos
from model.convert.argos.index import PUBLISHER
from model.convert.ctranslate2.reader import DEFAULTS, read_ctranslate2
from model.convert.language_codes import language_code
from model.convert.source import Export, Source
from model.convert.source_files import Imported, ImportRefused, read_object

PACKAGE_SUFFIX = ".argosmodel"
_MAX_FILES = 2_000
_MAX_BYTES = 4_000_000_000


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
        raise ImportRefused(path, [f"it is a package of the type {kind!r:.40}, which translates nothing"])
    source, target = _code(path, metadata, "from_code"), _code(path, metadata, "to_code")
    if not (path / SENTENCEPIECE).is_file():
        bpe = "a BPE vocabulary (bpe.model), whose words are those of Moses's tokenizer"
        tokenizer = bpe if (path / "bpe.model").is_file() else "no tokenizer"
        raise ImportRefused(path, [f"it has {tokenizer}: use a package of the pair with {SENTENCEPIECE}"])
    imported = read_ctranslate2(path / "model", (source, target), path / SENTENCEPIECE)
    first = metadata.get("target_prefix") or None
    if first is not None and first not in (imported.target_vocabulary or imported.vocabulary):
        raise ImportRefused(path, [f"its targets begin with {first!r}, which is not in the vocabulary"])
    # The package is for one pair: tags in its vocabulary do not choose between languages.
    generation = dataclasses.replace(DEFAULTS, beam_size=4, length_penalty=0.2)  # as Argos calls CTranslate2
    return dataclasses.replace(imported, tagged=False, language_pieces={}, first_piece=first, generation=generation)


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
            if sum(info.file_size for info in entries) > _MAX_BYTES:  # no more than that is unpacked
                raise ImportRefused(file, ["the package claims to hold more than 4 GB"])
            archive.extractall(scratch)
    except ImportRefused:
        raise
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError):
        refusal = ImportRefused(file, ["the file is not readable as a package (zip archive)"])
        refusal.final = False  # a download may have damaged it
        raise refusal from None
    if (metadata := next(scratch.glob(f"*/{METADATA}"), None)) is None:
        raise ImportRefused(file, [f"the package has no {METADATA}"])
    return metadata.parent


SOURCE = Source(
    sign=f"a file *{PACKAGE_SUFFIX} (Argos)",
    recognises=lambda path: path.suffix == PACKAGE_SUFFIX or (path / METADATA).is_file(),
    read=read_argos,
    publisher=PUBLISHER,
    export=Export(name="argos", write=export_argos, quantizes=True, one_pair=True),
)
