"""Vocabularies of model folders, and Marian's vocabulary files."""

from __future__ import annotations

import re
from collections.abc import Mapping

import sentencepiece
import yaml

from model.model_folder import ModelFolder
from model.tokenizer import load_vocabulary

_DOUBLE_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def folder_vocabularies(folder: ModelFolder) -> tuple[dict[str, int], dict[str, int]]:
    """Returns source and target vocabulary (piece -> id) of a model folder. Raises FolderError if a
    file is unreadable."""
    files, path = folder.tokenizer, folder.path
    folder.load_tokenizer()  # checks the files

    def read(vocabulary: str | None, pieces: str) -> dict[str, int]:
        if vocabulary is not None:
            return load_vocabulary(path / vocabulary)
        return sentencepiece_vocabulary((path / pieces).read_bytes())

    return read(files.vocabulary, files.source), read(
        files.target_vocabulary or files.vocabulary, files.target
    )


def folder_pieces(folder: ModelFolder) -> tuple[list[str], list[str]]:
    """Returns source and target pieces by id, in the sizes of the model's vocabularies. Unused ids
    are <unused-i>."""
    source, target = folder_vocabularies(folder)
    config = folder.model
    return by_id(source, config.source_vocab_size or config.vocab_size), by_id(
        target, config.vocab_size
    )


def by_id(vocabulary: Mapping[str, int], size: int) -> list[str]:
    """Returns `size` pieces in the order of their ids."""
    pieces = [f"<unused-{i}>" for i in range(size)]
    for piece, i in vocabulary.items():
        if i < size:
            pieces[i] = piece
    return pieces


def sentencepiece_vocabulary(data: bytes) -> dict[str, int]:
    """Returns piece -> id of a SentencePiece model."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    return {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}


def parse_vocab_yml(text: str) -> dict[str, int]:
    """Parses Marian's vocab.yml: `piece: id` per line, the piece plain or quoted, or `? piece` and
    `: id` on two lines.

    Marian writes pieces that are not valid YAML keys, so a YAML parser cannot read it. Raises
    ValueError with the line.
    """
    vocabulary: dict[str, int] = {}
    waiting: str | None = None
    for number, ended in enumerate(text.split("\n"), 1):
        line = ended.rstrip("\r")
        if not line or (waiting is None and line in ("---", "...")):
            continue
        if waiting is None and line.startswith("? "):
            waiting = line[2:]
            continue
        key, colon, value = (
            (waiting, ":", line[1:]) if waiting is not None else line.rpartition(":")
        )
        waiting = None
        if not colon or not value.strip().isdecimal():
            raise ValueError(f"line {number} is not `piece: id`")
        try:
            vocabulary[_unquote(key)] = int(value)
        except yaml.YAMLError:
            raise ValueError(f"line {number} has an unknown escape sequence") from None
    return vocabulary


def _unquote(key: str) -> str:
    if _DOUBLE_QUOTED.fullmatch(key):
        return str(yaml.safe_load(key)) if "\\" in key else key[1:-1]
    if len(key) >= 2 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    return key
