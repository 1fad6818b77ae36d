"""The families of models in Hugging Face's layout: Marian (OPUS-MT), and the pre-norm models of
fairseq with many languages, M2M100, NLLB-200, SMaLL-100 and mBART-50."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from model.config import ModelConfig
from model.convert.huggingface.export import export_huggingface
from model.convert.huggingface.layout import family, read_layout
from model.convert.huggingface.tokenizer_files import (
    TOKENIZER_JSON,
    language_code_of,
    matched,
    read_added,
    read_tokenizer_json,
)
from model.convert.languages import language_code
from model.convert.source_files import (
    MAX_VOCABULARY_BYTES,
    Export,
    Imported,
    check_vocabulary,
    read_object,
    read_optional,
    read_sentencepiece,
)
from model.convert.vocabulary import sentencepiece_vocabulary
from model.model_folder import ImportRefused, TokenizerFiles
from model.weight_files import Float32

SENTENCEPIECE = "sentencepiece.bpe.model"
TOKENIZER = (SENTENCEPIECE, TOKENIZER_JSON)
_FAIRSEQ = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
"""Ids of the special pieces. SentencePiece has <unk>, <s> and </s> as 0, 1 and 2; its other ids are
one less."""
_FIRST_PIECE, _OFFSET = 3, 1
_FIRST_POSITION = 2
"""fairseq does not use the first two rows of its position tables."""


def read_opus_mt(path: Path) -> Imported:
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
        tokenizer=TokenizerFiles(added=matched(added)),
        first_piece=_first_piece(path, layout.first_token, target_vocabulary or source_vocabulary),
    )


OPUS_MT = replace(
    family("marian", "OPUS-MT", read_opus_mt, ("source.spm",), ("target.spm",), ("vocab.json",)),
    export=Export(name="huggingface", write=export_huggingface),
)


def _first_piece(path: Path, token: Any, vocabulary: dict[str, int]) -> str | None:
    """Returns the forced first piece of all targets, None for none."""
    piece = next((piece for piece, i in vocabulary.items() if i == token), None)
    if token is not None and piece is None:
        raise ImportRefused(
            path, [f"forced_bos_token_id is {token!r}, which is not in the vocabulary"]
        )
    return piece


def _vocabularies(
    path: Path, config: ModelConfig, added: dict[str, dict[str, Any]]
) -> tuple[int, dict[str, int], dict[str, int] | None]:
    """Returns the target id of <unk>, vocab.json with the `added` tokens, and target_vocab.json or
    None."""
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


def read_vocabulary(path: Path, config: ModelConfig) -> dict[str, Any]:
    """Returns the fields of Imported that come from sentencepiece.bpe.model or tokenizer.json,
    vocab.json if it exists, and the list of language tokens. Raises ImportRefused."""
    file, names, ids = (
        path / "vocab.json",
        read_optional(path / "tokenizer_config.json"),
        dict[str, Any](),
    )
    saved = not (path / SENTENCEPIECE).is_file() and (path / TOKENIZER_JSON).is_file()
    if saved:
        pieces, ids = read_tokenizer_json(path)
    else:
        pieces = read_sentencepiece(path / SENTENCEPIECE)
    if file.is_file():
        ids = read_object(file, most=MAX_VOCABULARY_BYTES)
    ids = ids or _fairseq_ids(pieces)
    added = read_added(path)
    tokens = {
        token: ids.get(token, i)
        for token, i in _language_tokens(path, names, added, len(ids)).items()
    }
    codes = language_codes(list(tokens))
    if not codes:
        raise ImportRefused(
            path, ["none of its files lists the language tokens, such as __en__ or eng_Latn"]
        )
    in_texts = matched(added, tokens)
    ids |= {token: added[token]["id"] for token in in_texts if token not in ids}
    return {
        "source_pieces": pieces,
        "target_pieces": pieces,
        "vocabulary": check_vocabulary(path, {**ids, **tokens}, config.vocab_size),
        "language_pieces": codes,
        "tokenizer": TokenizerFiles(added=in_texts, trailing_space=saved),
    }


def offset_sinusoids(length: int, d_model: int, pad: int) -> Float32:
    """Returns fairseq's positions (length, d_model): sines and cosines from position pad + 1 on,
    with wavelengths over d_model / 2 - 1 steps."""
    half = d_model // 2
    exponents = np.arange(half, dtype=np.float32) * np.float32(-math.log(10_000) / max(1, half - 1))
    # (length, half)
    angles = np.arange(pad + 1, pad + 1 + length, dtype=np.float32)[:, None] * np.exp(exponents)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _fairseq_ids(pieces: bytes) -> dict[str, int]:
    ids = sentencepiece_vocabulary(pieces)
    return {**_FAIRSEQ, **{piece: i + _OFFSET for piece, i in ids.items() if i >= _FIRST_PIECE}}


def _language_tokens(
    path: Path, names: dict[str, Any], added: dict[str, dict[str, Any]], first: int
) -> dict[str, int]:
    """Returns language token -> id from the `added` tokens, else from a list in order from `first`
    on."""
    languages = {token: entry["id"] for token, entry in added.items() if language_code_of(token)}
    if languages:
        return languages
    special = read_optional(path / "special_tokens_map.json") or names
    listed = special.get("additional_special_tokens") or special.get("extra_special_tokens") or []
    tokens = [
        token["content"] if isinstance(token, dict) and "content" in token else token
        for token in listed
    ]
    return {
        token: first + i
        for i, token in enumerate(token for token in tokens if language_code_of(token))
    }


def language_codes(pieces: list[str]) -> dict[str, str]:
    """Returns our code -> token for the language tokens among pieces. Only languages with two
    scripts have the script in their code."""
    stated = {token: code for token in pieces if (code := language_code_of(token))}
    short = {token: language_code(code.split("_")[0]) for token, code in stated.items()}
    count = Counter(short.values())
    return {
        short[token] if count[short[token]] == 1 else language_code(stated[token]): token
        for token in stated
    }


def read_m2m100(path: Path) -> Imported:
    """Reads a M2M100ForConditionalGeneration. Raises ImportRefused with all reasons."""
    layout = read_layout(path, norm="pre")
    vocabulary, config = read_vocabulary(path, layout.config), layout.config
    table = offset_sinusoids(config.max_length, config.d_model, config.pad_id)
    names = read_optional(path / "tokenizer_config.json")
    label = f"{names.get('tokenizer_class', '')} {path.resolve().name}".lower().replace("-", "")
    return Imported(
        **vocabulary,
        config=config.replace(unk_id=vocabulary["vocabulary"]["<unk>"], positions="learned"),
        tensors=layout.tensors | {"positions.weight": table},
        generation=layout.generation,
        tagged_by_target="small100" in label,
    )


M2M100 = family("m2m_100", "M2M100, NLLB-200, SMaLL-100", read_m2m100, TOKENIZER)


def read_mbart50(path: Path) -> Imported:
    """Reads a MBartForConditionalGeneration whose sources begin with their language. Raises
    ImportRefused with all reasons."""
    stated = [
        read_optional(path / name).get("tokenizer_class")
        for name in ("tokenizer_config.json", "config.json")
    ]
    if not any(str(name).startswith("MBart50Tokenizer") for name in stated):
        reason = "it does not name MBart50Tokenizer: of mBART only mBART-50 is supported, such as "
        raise ImportRefused(path, [f"{reason}facebook/mbart-large-50-many-to-many-mmt"])
    layout = read_layout(path, _FIRST_POSITION, norm="pre", embedding_norm=True)
    vocabulary = read_vocabulary(path, layout.config)
    first = [piece for piece, i in vocabulary["vocabulary"].items() if i == layout.first_token]
    return Imported(
        **vocabulary,
        config=layout.config.replace(unk_id=vocabulary["vocabulary"]["<unk>"]),
        tensors=layout.tensors,
        generation=layout.generation,
        # the only target of models that translate into one language
        first_piece=next(iter(first), None),
    )


MBART50 = family("mbart", "mBART-50", read_mbart50, TOKENIZER)
