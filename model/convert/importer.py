"""Import of a model of another program as a model folder, written to a temporary place and
moved."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from model.convert.families import SOURCES, signs, unsupported
from model.convert.languages import find_pairs, language_tags
from model.convert.source_files import Imported, check_pieces, read_card, read_optional
from model.head_roles import measure, open_exact
from model.model_folder import (
    AllPairs,
    FolderError,
    ImportRefused,
    ModelFolder,
    TokenizerFiles,
    let_others_read,
    read_folder,
)
from model.search.driver import check_trial_sentence
from model.weight_files import SINGLE, save_arrays

log = logging.getLogger(__name__)
_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .+()-]{0,63}")
_LFS_POINTER, _LONGEST_POINTER = b"version https://git-lfs.github.com/spec/", 1_000
_OTHER_FORMATS = (
    "give the folder with all files of the model, unpacked; models in other formats (ONNX, GGUF, "
    "TensorFlow, fairseq) are "
    "imported from their originals or after a conversion to Hugging Face's layout"
)
_ABOUT = "A model of another program, imported unchanged: the same numbers in another layout."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """`name` is that of the new folder; `sources` and `targets` are language codes that override
    those of the files; `origin` states where the files came from."""

    name: str | None = None
    sources: Sequence[str] = ()
    targets: Sequence[str] = ()
    license: str | None = None
    origin: str | None = None
    replace: bool = False


def import_model(path: Path, weights: Path, options: ImportOptions | None = None) -> ModelFolder:
    """Imports the model in `path` as a new folder under `weights`. Raises FolderError, or
    ImportRefused if the model is not supported; leaves no files behind then."""
    options = options or ImportOptions()
    name = options.name or (path.resolve().name if path.is_dir() else path.resolve().stem)
    target = new_folder(weights, name, options.replace)
    imported = _read(path)
    check_pieces(path, imported)
    weights.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".importing-", dir=weights))
    try:
        written = _write(path, _folder(path, scratch / name, name, imported, options), imported)
        scratch.chmod(0o755)
        if target.exists():
            target.rename(scratch / "replaced")
        written.path.rename(target)
    finally:
        shutil.rmtree(scratch)
    return read_folder(target)


def new_folder(weights: Path, name: str, replace: bool) -> Path:
    """Returns the path of a new model folder. Raises FolderError for an invalid name, and for an
    existing folder without `replace`."""
    if not _NAME.fullmatch(name):
        raise FolderError(
            f"{name!r} cannot be a folder's name: choose one of letters, digits, dots and dashes "
            "with --name."
        )
    target = weights / name
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FolderError(f"{target} is not a folder.")
    if target.exists() and not replace:
        raise FolderError(
            f"{target} exists already; replace it with --replace or choose another --name."
        )
    return target


def _read(path: Path) -> Imported:
    for file in sorted(path.glob("*")):
        with contextlib.suppress(OSError):  # the importer reports files that cannot be read
            if file.stat().st_size <= _LONGEST_POINTER and file.read_bytes().startswith(
                _LFS_POINTER
            ):
                reason = (
                    f"{file.name} is a pointer of Git LFS and not the file: run `git lfs pull` in "
                    "the folder"
                )
                raise ImportRefused(path, [reason])
    if not path.exists():
        raise ImportRefused(path, ["it does not exist"])
    source = next((source for source in SOURCES if source.recognises(path)), None)
    if source is None:
        raise ImportRefused(path, [_unknown(path)])
    if missing := source.files([file.name for file in path.glob("*")])[1]:
        raise ImportRefused(path, [f"it lacks {', '.join(missing)}"])
    return source.read(path)


def _unknown(path: Path) -> str:
    """Returns why no family recognises a path."""
    fields = read_optional(path / "config.json")
    if "pairs" in fields and isinstance(fields.get("model"), dict):
        return "it is a model folder of this server already: copy it to the folder of --weights"
    if fields:
        return unsupported(fields.get("model_type"))
    return f"it has none of the files by which models are known ({signs()}): {_OTHER_FORMATS}"


def _folder(
    path: Path, target: Path, name: str, imported: Imported, options: ImportOptions
) -> ModelFolder:
    card_license, listed = read_card(path)
    license_ = options.license or card_license or imported.license
    stated: dict[str, Any] = {
        "path": target,
        "name": name,
        "model": imported.config,
        "license": license_ if _LICENSE.fullmatch(license_) else "unknown",
        "origin": options.origin or f"imported from {path.resolve().name}",
        "tokenizer": _tokenizer(imported),
        "generation": imported.generation,
        "scores": imported.scores,
    }
    if imported.language_pieces:
        stated |= _many_languages(path, imported, options)
    else:
        tags = language_tags(imported.vocabulary) if imported.tagged else {}
        pairs, tags = find_pairs(
            path, name, imported.languages, listed, tags, options.sources, options.targets
        )
        first = (
            {}
            if imported.first_piece is None
            else {target: imported.first_piece for _, target in pairs}
        )
        stated |= {"pairs": pairs, "tags": tags, "first_tokens": first}
    return ModelFolder(**stated)


def _many_languages(path: Path, imported: Imported, options: ImportOptions) -> dict[str, Any]:
    """Returns pairs and pieces of a model between all its languages, or those of the options."""
    known = imported.language_pieces
    if unknown := [code for code in (*options.sources, *options.targets) if code not in known]:
        raise ImportRefused(path, [f"it does not have the language {code}" for code in unknown[:5]])
    targets = options.targets or [
        code for code, piece in known.items() if piece == imported.first_piece
    ]
    pairs = AllPairs(
        *(tuple(dict.fromkeys(side)) or tuple(known) for side in (options.sources, targets))
    )
    if not pairs:
        raise ImportRefused(path, ["source and target language are the same"])
    read, written = (
        {code: known[code] for code in side} for side in (pairs.sources, pairs.targets)
    )
    if imported.tagged_by_target:
        return {"pairs": pairs, "tags": written}
    return {"pairs": pairs, "tags": {}, "source_tags": read, "first_tokens": written}


def _tokenizer(imported: Imported) -> TokenizerFiles:
    same = imported.source_pieces == imported.target_pieces
    return dataclasses.replace(
        imported.tokenizer,
        source="source.spm",
        target="source.spm" if same else "target.spm",
        vocabulary="vocab.json",
        target_vocabulary=None if imported.target_vocabulary is None else "target_vocab.json",
    )


def _write(path: Path, folder: ModelFolder, imported: Imported) -> ModelFolder:
    """Writes the folder, loads it and translates a trial sentence, so that a model that the server
    cannot use is rejected."""
    folder.path.mkdir(exist_ok=True)
    (folder.path / "config.json").write_text(folder.to_json(), encoding="utf-8")
    save_arrays(imported.tensors, folder.path / SINGLE)
    let_others_read(folder.path / SINGLE)
    files = folder.tokenizer
    (folder.path / files.source).write_bytes(imported.source_pieces)
    (folder.path / files.target).write_bytes(imported.target_pieces)
    vocabularies = {
        files.vocabulary: imported.vocabulary,
        files.target_vocabulary: imported.target_vocabulary,
    }
    for name, vocabulary in vocabularies.items():
        if name is not None and vocabulary is not None:
            (folder.path / name).write_text(
                json.dumps(vocabulary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
    (folder.path / "README.md").write_text(card(folder, _ABOUT), encoding="utf-8")
    if imported.shortlist is not None:
        imported.shortlist.write(folder.path)
    written = read_folder(folder.path)
    written.load_tokenizer()
    backend = open_exact(written)
    try:
        check_trial_sentence(backend, written.model)
    except FolderError as error:
        raise ImportRefused(path, [str(error).rstrip(".")]) from None
    measure(written, backend)
    backend.close()
    return written


def card(folder: ModelFolder, about: str) -> str:
    """Returns a model card with the Hugging Face hub's front matter and a sentence `about` the
    model."""
    config = folder.model
    languages = "\n".join(f"- {code}" for code in folder.languages)
    pairs = ", ".join(f"{source}-{target}" for source, target in islice(folder.pairs, 100))
    if len(folder.pairs) > 100:
        pairs = f"{len(folder.pairs):,} pairs of {len(folder.languages)} languages"
    return f"""---
license: {folder.license}
language:
{languages}
pipeline_tag: translation
---

# {folder.name}

{about}

- **Origin:** {folder.origin}
- **Licence:** {folder.license}. It covers the weights; the origin's model card names the data they were trained on.
- **Translates:** {pairs}
- **Shape:** {config.encoder_layers}+{config.decoder_layers} layers, d_model {config.d_model}, {config.heads} heads, \
feed-forward {config.d_ff} ({config.activation}), {config.norm}-norm, {config.vocab_size} target tokens, \
at most {config.max_length} tokens a sentence
"""
