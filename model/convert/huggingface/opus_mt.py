"""Marian's models in Hugging Face's layout, such as OPUS-MT: config.json, weights, source.spm,
target.spm, vocab.json."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from model.config import ModelConfig
from model.convert.huggingface.added_tokens import matched, read_added
from model.convert.huggingface.export import export_huggingface
from model.convert.huggingface.layout import family, read_layout
from model.convert.source_files import (
    MAX_VOCABULARY_BYTES,
    Export,
    Imported,
    ImportRefused,
    check_vocabulary,
    read_object,
    read_optional,
    read_sentencepiece,
)


def read(path: Path) -> Imported:
    """Reads a MarianMTModel. Raises ImportRefused with all reasons."""
    layout, added = read_layout(path), read_added(path)
    unknown_id, source_vocabulary, target_vocabulary = _vocabularies(path, layout.config, added)
    names = read_optional(path / "tokenizer_config.json")
    source, target = (
        names.get(key) if isinstance(names.get(key), str) else None
        for key in ("source_lang", "target_lang")
    )
    return Imported(
        config=layout.config.replace(unk_id=unknown_id),
        tensors=layout.tensors,
        source_pieces=read_sentencepiece(path / "source.spm"),
        target_pieces=read_sentencepiece(path / "target.spm"),
        vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        languages=(source, target),
        generation=layout.generation,
        added=matched(added),
        first_piece=_first_piece(path, layout.first_token, target_vocabulary or source_vocabulary),
    )


SOURCE = replace(
    family("marian", "OPUS-MT", read, ("source.spm",), ("target.spm",), ("vocab.json",)),
    export=Export(name="huggingface", write=export_huggingface),
)


def _first_piece(path: Path, token: Any, vocabulary: dict[str, int]) -> str | None:
    """Returns the piece of the forced first token of all targets, None for none."""
    piece = next((piece for piece, i in vocabulary.items() if i == token), None)
    if token is not None and piece is None:
        raise ImportRefused(
            path, [f"forced_bos_token_id is {token!r}, which is not in the vocabulary"]
        )
    return piece


def _vocabularies(
    path: Path, config: ModelConfig, added: dict[str, dict[str, Any]]
) -> tuple[int, dict[str, int], dict[str, int] | None]:
    """Returns the id of <unk> on the target side, vocab.json with the `added` tokens, and
    target_vocab.json or None."""
    source_size = config.source_vocab_size or config.vocab_size
    file, target_file = path / "vocab.json", path / "target_vocab.json"
    more = {token: entry["id"] for token, entry in added.items()}
    source = check_vocabulary(
        file, more | read_object(file, most=MAX_VOCABULARY_BYTES), source_size
    )
    target = None
    if target_file.is_file():
        target = check_vocabulary(
            target_file, read_object(target_file, most=MAX_VOCABULARY_BYTES), config.vocab_size
        )
    elif config.source_vocab_size is not None:
        raise ImportRefused(
            path, ["its vocabularies have different sizes, but there is no target_vocab.json"]
        )
    written = target or source
    if written["</s>"] != config.eos_id:
        raise ImportRefused(
            path,
            [f"</s> is {written['</s>']} in the vocabulary and {config.eos_id} in config.json"],
        )
    return written["<unk>"], source, target
