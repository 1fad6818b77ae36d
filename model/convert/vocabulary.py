"""Vocabularies of model folders and of SentencePiece models."""

from __future__ import annotations

from collections.abc import Mapping

import sentencepiece

from model.model_folder import ModelFolder
from model.tokenizer import load_vocabulary


def folder_vocabularies(folder: ModelFolder) -> tuple[dict[str, int], dict[str, int]]:
    """Returns source and target vocabulary (piece -> id) of a model folder. Raises FolderError."""
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
    """Returns source and target pieces by id, in the model's vocabulary sizes. Unused ids are
    <unused-i>."""
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
