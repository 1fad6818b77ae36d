"""Import of a model of Firefox (Bergamot): the files of one language pair in a folder, with or without their
configuration.

Mozilla publishes `model.ende.intgemm.alphas.bin`, `vocab.ende.spm` (or `srcvocab.ende.spm` and `trgvocab.ende.spm`),
`lex.50.50.ende.s2t.bin` and metadata.json; Bergamot's archives have `config.intgemm8bitalpha.yml`, which names the files.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from model.convert.languages import language_code
from model.convert.marian.binary_archive import BinaryArchive
from model.convert.marian.reader import read_model
from model.convert.marian.shortlist_binary import read_binary_shortlist
from model.convert.source_files import (
    Imported,
    ImportRefused,
    Languages,
    read_card,
    read_object,
    read_sentencepiece,
)
from model.model_folder import Generation

LICENSE = "MPL-2.0"
"""Licence of Mozilla's models."""
METADATA = "metadata.json"
_MODELS = "*.intgemm*.bin"
_CONFIGS = "config.*.yml"
_SHORTLISTS = "lex.*.bin"
_ENGLISH = "en"


@dataclass(frozen=True, slots=True)
class _Files:
    model: Path
    source: Path
    target: Path
    shortlist: Path | None


def is_firefox(path: Path) -> bool:
    """Returns whether a folder, or a file in one, is a model of Firefox."""
    if path.is_file():
        return path.match(_MODELS)
    return next(path.glob(_MODELS), None) is not None or bool(_configuration(path))


def read_firefox(path: Path) -> Imported:
    """Reads a model of Firefox; `path` is the folder or the model file. Raises ImportRefused with all reasons.

    Marian never writes the unknown piece, so it is forbidden here too.
    """
    folder = path if path.is_dir() else path.parent
    files = _find_files(path, folder)
    pieces = [read_sentencepiece(file) for file in (files.source, files.target)]
    model = read_model(files.model, (files.source, files.target), BinaryArchive)
    config, target = model["config"], model["target_vocabulary"] or model["vocabulary"]
    published = _published(folder)
    license_, listed = read_card(folder)
    return Imported(
        **model,
        source_pieces=pieces[0],
        target_pieces=pieces[1],
        languages=_languages(files.model, published, listed),
        license=license_ or (LICENSE if published else ""),
        generation=Generation(forbidden=(target["<unk>"],)),
        shortlist=None if files.shortlist is None else read_binary_shortlist(files.shortlist, config),
    )


def _find_files(path: Path, folder: Path) -> _Files:
    """Returns the files that the configuration names, else those with Mozilla's names."""
    named = _configuration(folder)
    models = [path] if path.is_file() else [folder / name for name in named.get("models", ())]
    models = models or sorted(folder.glob(_MODELS))
    vocabularies, reasons = [folder / name for name in named.get("vocabs", ())], []
    if not vocabularies:
        both = [*folder.glob("srcvocab.*.spm"), *folder.glob("trgvocab.*.spm")]
        vocabularies = both or sorted(folder.glob("*.spm"))
        if len(both) == 1:
            reasons.append(f"it has {both[0].name} without the vocabulary of the other side (srcvocab and trgvocab)")
    if len(models) != 1:
        reasons.append(f"it has {len(models)} models ({_MODELS}): give one of the files, or one folder a model")
    if not 1 <= len(vocabularies) <= 2:
        reasons.append(f"it has {len(vocabularies)} vocabularies (*.spm) instead of one or two")
    shortlists = [file for name in named.get("shortlist", ()) if (file := folder / name).is_file()]
    shortlists = shortlists or sorted(folder.glob(_SHORTLISTS))
    if len(shortlists) > 1:
        reasons.append(f"it has {len(shortlists)} shortlists ({_SHORTLISTS}): keep one of the files")
    if reasons:
        raise ImportRefused(path, reasons)
    return _Files(models[0], vocabularies[0], vocabularies[-1], shortlists[0] if shortlists else None)


def _configuration(folder: Path) -> dict[str, list[str]]:
    """Returns the names of `models`, `vocabs` and `shortlist` in the configuration of Bergamot, without their
    folders."""
    for file in sorted(folder.glob(_CONFIGS)):
        with contextlib.suppress(ImportRefused):
            fields = read_object(file, yaml.safe_load)
            if isinstance(fields.get("models"), list) and isinstance(fields.get("vocabs"), list):
                listed = fields.get("shortlist")
                fields["shortlist"] = listed[:1] if isinstance(listed, list) else []  # the rest is options of Marian
                return {
                    key: [Path(str(name)).name for name in fields[key]] for key in ("models", "vocabs", "shortlist")
                }
    return {}


def _published(folder: Path) -> dict[str, Any]:
    """Returns Mozilla's metadata of the model, empty if there are none."""
    file = folder / METADATA
    fields = read_object(file, json.loads) if file.is_file() else {}
    return fields if "sourceLanguage" in fields and "targetLanguage" in fields else {}


def _languages(model: Path, published: dict[str, Any], listed: tuple[str, ...]) -> Languages:
    """Returns the languages of the metadata, else of the file name (model.ende.intgemm.alphas.bin)."""
    if published:
        return Languages(
            language_code(str(published["sourceLanguage"])), language_code(str(published["targetLanguage"])), listed
        )
    joined = model.name.split(".")[1] if model.name.count(".") > 1 else ""
    if joined.startswith(_ENGLISH):
        pair = (_ENGLISH, joined.removeprefix(_ENGLISH))
    elif joined.endswith(_ENGLISH):
        pair = (joined.removesuffix(_ENGLISH), _ENGLISH)
    else:
        pair = (joined[:2], joined[2:])
    if not all(re.fullmatch(r"[a-z]{2,3}(_[a-z]{2,4})?", code) for code in pair):
        return Languages(listed=listed)
    return Languages(language_code(pair[0]), language_code(pair[1]), listed)
