"""Import of a model of Firefox (Bergamot): the files of one language pair in a folder.

Mozilla publishes `model.ende.intgemm.alphas.bin`, `vocab.ende.spm` (or `srcvocab.ende.spm` and `trgvocab.ende.spm`),
`lex.50.50.ende.s2t.bin` and metadata.json.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from model.convert.languages import language_code
from model.convert.marian.reader import read_model
from model.convert.marian.shortlist_binary import read_binary_shortlist
from model.convert.source_files import Imported, ImportRefused, Languages, read_card, read_optional, read_sentencepiece
from model.model_folder import Generation

LICENSE = "MPL-2.0"
"""Licence of Mozilla's models."""
METADATA = "metadata.json"
_MODELS = "*.intgemm*.bin"
_SHORTLISTS = "lex.*.bin"
_ENGLISH = "en"


def is_firefox(path: Path) -> bool:
    """Returns whether a folder, or a file in one, is a model of Firefox."""
    return path.match(_MODELS) if path.is_file() else next(path.glob(_MODELS), None) is not None


def read_firefox(path: Path) -> Imported:
    """Reads a model of Firefox; `path` is the folder or the model file. Raises ImportRefused with all reasons.

    Marian never writes the unknown piece, so it is forbidden here too.
    """
    folder = path if path.is_dir() else path.parent
    file, vocabularies, shortlist = _find_files(path, folder)
    model = read_model(file, vocabularies)
    config, target = model["config"], model["target_vocabulary"] or model["vocabulary"]
    published = _published(folder)
    license_, listed = read_card(folder)
    return Imported(
        **model,
        source_pieces=read_sentencepiece(vocabularies[0]),
        target_pieces=read_sentencepiece(vocabularies[1]),
        languages=_languages(file, published, listed),
        license=license_ or (LICENSE if published else ""),
        generation=Generation(forbidden=(target["<unk>"],)),
        shortlist=None if shortlist is None else read_binary_shortlist(shortlist, config),
    )


def _find_files(path: Path, folder: Path) -> tuple[Path, tuple[Path, Path], Path | None]:
    """Returns the model, source and target vocabulary, and the shortlist if there is one, by Mozilla's names."""
    reasons = []
    models = [path] if path.is_file() else sorted(folder.glob(_MODELS))
    if len(models) != 1:
        reasons.append(f"it has {len(models)} models ({_MODELS}): give one of the files, or one folder a model")
    both = [*folder.glob("srcvocab.*.spm"), *folder.glob("trgvocab.*.spm")]
    vocabularies = both or sorted(folder.glob("*.spm"))
    if len(both) == 1:
        reasons.append(f"it has {both[0].name} without the vocabulary of the other side (srcvocab and trgvocab)")
    if not 1 <= len(vocabularies) <= 2:
        reasons.append(f"it has {len(vocabularies)} vocabularies (*.spm) instead of one or two")
    shortlists = sorted(folder.glob(_SHORTLISTS))
    if len(shortlists) > 1:
        reasons.append(f"it has {len(shortlists)} shortlists ({_SHORTLISTS}): keep one of the files")
    if reasons:
        raise ImportRefused(path, reasons)
    return models[0], (vocabularies[0], vocabularies[-1]), shortlists[0] if shortlists else None


def _published(folder: Path) -> dict[str, Any]:
    """Returns Mozilla's metadata of the model, empty if there are none."""
    fields = read_optional(folder / METADATA)
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
