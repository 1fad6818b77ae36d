"""Vocabularies of model folders, and Marian's vocabulary files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import sentencepiece

from model.model_folder import FolderError, ModelFolder
from model.tokenizer import load_vocabulary

_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)


def folder_vocabularies(folder: ModelFolder) -> tuple[dict[str, int], dict[str, int]]:
    """Returns source and target vocabulary (piece -> id) of a model folder. Raises FolderError if a file is
    unreadable."""
    files = folder.tokenizer
    try:
        source = _vocabulary(folder.path, files.vocabulary, files.source)
        if files.target_vocabulary is not None:
            return source, load_vocabulary(folder.path / files.target_vocabulary)
        target = source if files.vocabulary is not None else _vocabulary(folder.path, None, files.target)
    except (OSError, ValueError, RuntimeError) as error:
        raise FolderError(f"The tokenizer of {folder.path.name} cannot be read: {error}") from None
    return source, target


def folder_pieces(folder: ModelFolder) -> tuple[list[str], list[str]]:
    """Returns source and target pieces by id, in the sizes of the model's vocabularies. Unused ids are <unused-i>."""
    source, target = folder_vocabularies(folder)
    config = folder.model
    return by_id(source, config.source_vocab_size or config.vocab_size), by_id(target, config.vocab_size)


def by_id(vocabulary: Mapping[str, int], size: int) -> list[str]:
    """Returns `size` pieces in the order of their ids."""
    pieces = [f"<unused-{i}>" for i in range(size)]
    for piece, i in vocabulary.items():
        if i < size:
            pieces[i] = piece
    return pieces


def _vocabulary(path: Path, vocabulary: str | None, pieces: str) -> dict[str, int]:
    return _sentencepiece(path / pieces) if vocabulary is None else load_vocabulary(path / vocabulary)


def _sentencepiece(path: Path) -> dict[str, int]:
    return sentencepiece_vocabulary(sentencepiece.SentencePieceProcessor(model_file=str(path)))


def sentencepiece_vocabulary(processor: sentencepiece.SentencePieceProcessor) -> dict[str, int]:
    """Returns piece -> id of a SentencePiece model."""
    return {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}


def parse_vocab_yml(text: str) -> dict[str, int]:
    """Parses Marian's vocab.yml: `piece: id` per line, the piece plain or quoted, or `? piece` and `: id` on two lines.

    Marian writes pieces that are not valid YAML keys, so a YAML parser cannot read it. Raises ValueError with the line.
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
        key, colon, value = (waiting, ":", line[1:]) if waiting is not None else line.rpartition(":")
        waiting = None
        if not colon or not value.strip().isdecimal():
            raise ValueError(f"line {number} is not `piece: id`")
        vocabulary[_unquote(key)] = int(value)
    return vocabulary


def _unquote(key: str) -> str:
    if _DOUBLE_QUOTED.fullmatch(key):
        return _ESCAPE.sub(_unescape, key[1:-1])
    if len(key) >= 2 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    return key


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else _ESCAPES.get(match[4], match[4])
