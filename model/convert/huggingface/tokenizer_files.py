"""Tokenizer files of transformers: added tokens, and tokenizer.json as a SentencePiece model
(Unigram, or BPE whose pieces are words).

A SentencePiece model is a message of protocol buffers: pieces (1), trainer (2), normalizer (3). Its
BPE joins the pair whose piece has the largest score first, so scores follow the order of the
merges.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from model.convert.source_files import MAX_VOCABULARY_BYTES, read_object, read_optional
from model.model_folder import ImportRefused

TOKENIZER_JSON = "tokenizer.json"
ADDED_TOKENS = ("added_tokens.json", "tokenizer_config.json", TOKENIZER_JSON)
_SPECIAL = frozenset(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
_TAG = re.compile(r">>.+<<")
_LANGUAGE = re.compile(r"__([a-zA-Z]+)__|([a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2})")
"""__en__, eng_Latn and en_XX."""
_LETTERS = {"lstrip": "l", "rstrip": "r", "single_word": "w", "special": "s"}
_MOST, _LONGEST = 100_000, 1_000
_UNIGRAM, _BPE = 1, 2
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3
_IGNORED = ("Precompiled", "Sequence", "Replace", "Strip")


def read_added(path: Path) -> dict[str, dict[str, Any]]:
    """Returns token -> its entry, with its `id`, of all three files. Raises ImportRefused."""
    ids = read_object(path / ADDED_TOKENS[0]) if (path / ADDED_TOKENS[0]).is_file() else {}
    entries = {token: {"content": token, "id": i} for token, i in ids.items()}
    file = path / ADDED_TOKENS[2]
    listed = (
        read_object(file, most=MAX_VOCABULARY_BYTES).get("added_tokens") if file.is_file() else None
    )
    stated = read_optional(path / ADDED_TOKENS[1]).get("added_tokens_decoder")
    rows = (
        [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    )
    if isinstance(stated, dict):
        rows += [
            {**entry, "id": int(i)}
            for i, entry in stated.items()
            if isinstance(entry, dict) and i.isdecimal()
        ]
    entries |= {
        entry["content"]: entry
        for entry in rows
        if isinstance(entry.get("content"), str) and "id" in entry
    }
    if len(entries) > _MOST or any(not 0 < len(token) <= _LONGEST for token in entries):
        raise ImportRefused(path, ["its added tokens are too many, too long or empty"])
    return entries


def matched(entries: dict[str, dict[str, Any]], languages: Collection[str] = ()) -> dict[str, str]:
    """Returns the tokens to find in texts, with the letters of `model.tokenizer`. Without the
    special tokens of every tokenizer, `languages` and tags, which a text must not contain."""
    return {
        token: "".join(letter for name, letter in _LETTERS.items() if entry.get(name) is True)
        for token, entry in entries.items()
        if token not in _SPECIAL
        and token not in languages
        and not _TAG.fullmatch(token)
        and not language_code_of(token)
    }


def language_code_of(token: Any) -> str | None:
    """Returns the code in a language token: en of __en__, eng_Latn of eng_Latn; else None."""
    stated = _LANGUAGE.fullmatch(token) if isinstance(token, str) else None
    return stated and (stated[1] or stated[2])


def read_tokenizer_json(path: Path) -> tuple[bytes, dict[str, int]]:
    """Returns a SentencePiece model and piece -> id. Raises ImportRefused if it cannot represent
    the tokenizer."""
    fields = read_object(path / TOKENIZER_JSON, most=MAX_VOCABULARY_BYTES)
    try:
        return _converted(path / TOKENIZER_JSON, fields)
    except ImportRefused:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        struct.error,
        RecursionError,
    ):
        raise ImportRefused(
            path / TOKENIZER_JSON, ["it is not a tokenizer of the library `tokenizers`"]
        ) from None


def _converted(file: Path, fields: dict[str, Any]) -> tuple[bytes, dict[str, int]]:
    model, steps = fields["model"], list(_steps(fields.get("normalizer")))
    kind = model.get("type") or ("Unigram" if isinstance(model["vocab"], list) else "BPE")
    spaces = [step for step in _steps(fields.get("pre_tokenizer")) if step["type"] == "Metaspace"]
    names = ", ".join(step["type"] for step in _steps(fields.get("pre_tokenizer")))
    if (
        kind not in ("Unigram", "BPE")
        or not spaces
        or model.get("byte_fallback")
        or model.get("end_of_word_suffix")
    ):
        raise ImportRefused(
            file, [f"it is a {kind} tokenizer after {names or 'nothing'}, not one of SentencePiece"]
        )
    if other := [step["type"] for step in steps if step["type"] not in _IGNORED]:
        raise ImportRefused(file, [f"its normalizer {other[0]} is not supported"])
    if kind == "Unigram":
        scores = {str(piece): float(score) for piece, score in model["vocab"]}
        ids = {piece: i for i, piece in enumerate(scores)}
        if len(scores) != len(model["vocab"]):
            raise ValueError
    else:
        ids = {str(piece): int(i) for piece, i in model["vocab"].items()}
        scores = dict.fromkeys(sorted(ids, key=ids.__getitem__), float(-len(model["merges"]) - 1))
        pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
        for rank, (left, right) in enumerate(pairs):
            scores[left + right] = max(scores[left + right], float(-rank))
    scores = {"<unk>": 0.0} | scores  # SentencePiece needs one
    charsmap = b"".join(
        base64.b64decode(step["precompiled_charsmap"])
        for step in steps
        if step["type"] == "Precompiled"
    )
    # Texts are searched for the added tokens before, so that they are no pieces of a text.
    control = {"<s>", "</s>", "<pad>"} | {
        token["content"] for token in fields.get("added_tokens") or ()
    }
    pieces = b"".join(
        _field(1, _piece(piece, score, piece in control)) for piece, score in scores.items()
    )
    unknown = list(scores).index("<unk>")
    trainer = (
        _number(3, _UNIGRAM if kind == "Unigram" else _BPE)
        + _number(4, len(scores))
        + _number(40, unknown)
    )
    ends = [
        list(scores).index(piece) if piece in scores else -1 for piece in ("<s>", "</s>", "<pad>")
    ]
    trainer += b"".join(_number(41 + place, i) for place, i in enumerate(ends))
    normalizer = (
        _field(1, b"tokenizer.json")
        + _field(2, charsmap)
        + _number(3, 1)
        + _number(4, 1)
        + _number(5, 1)
    )
    return pieces + _field(2, trainer) + _field(3, normalizer), ids


def _steps(step: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yields the steps of a normalizer or pre-tokenizer, which may be nested."""
    if step is not None:
        yield from [step] if step["type"] != "Sequence" else ()
        for inner in step.get("normalizers") or step.get("pretokenizers") or ():
            yield from _steps(inner)


def _piece(piece: str, score: float, control: bool) -> bytes:
    """Text (1), score (2) and type (3)."""
    kind = _UNKNOWN if piece == "<unk>" else _CONTROL if control else _NORMAL
    return _field(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, kind)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])
