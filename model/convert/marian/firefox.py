"""Import of a model of Firefox (Bergamot): the files of one language pair in a folder.

Mozilla publishes `model.ende.intgemm.alphas.bin`, `vocab.ende.spm` (or `srcvocab.ende.spm` and
`trgvocab.ende.spm`), `lex.50.50.ende.s2t.bin` and metadata.json.
"""

from __future__ import annotations

import logging
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

from model.config import ModelConfig
from model.convert.language_codes import language_code
from model.convert.marian.archives import BINARY_VERSION
from model.convert.marian.reader import read_model
from model.convert.source_files import (
    Imported,
    ImportRefused,
    Languages,
    read_bytes,
    read_optional,
    read_sentencepiece,
)
from model.model_folder import Generation
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


def read_firefox(path: Path) -> Imported:
    """Reads a folder with a model of Firefox. Raises ImportRefused with all reasons.

    Marian never writes the unknown piece, so it is forbidden here too.
    """
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
    """Returns BLEU and COMET of the metadata."""
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
    """Returns the shortlist of a folder, if it has one that can be read: a model is as good
    without, and slower."""
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
    offsets and of targets. Then the offsets (uint64) and the targets (uint32). The checksum is not
    read: every number is checked instead. The last offsets may be missing: Marian writes them up to
    the highest source token that has targets.
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
