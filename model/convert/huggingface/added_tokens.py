"""Tokens that were added to a tokenizer of transformers: added_tokens.json, tokenizer_config.json
or tokenizer.json."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from model.convert.source_files import (
    MAX_VOCABULARY_BYTES,
    ImportRefused,
    read_object,
    read_optional,
)

FILES = ("added_tokens.json", "tokenizer_config.json", "tokenizer.json")
_SPECIAL = frozenset(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
_TAG = re.compile(r">>.+<<")
_LANGUAGE = re.compile(r"__([a-zA-Z]+)__|([a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2})")
"""__en__, eng_Latn and en_XX."""
_LETTERS = {"lstrip": "l", "rstrip": "r", "single_word": "w", "special": "s"}
_MOST, _LONGEST = 100_000, 1_000


def read_added(path: Path) -> dict[str, dict[str, Any]]:
    """Returns token -> its entry, with its `id`, of all three files. Raises ImportRefused."""
    ids = read_object(path / FILES[0]) if (path / FILES[0]).is_file() else {}
    entries = {token: {"content": token, "id": i} for token, i in ids.items()}
    file = path / FILES[2]
    listed = (
        read_object(file, most=MAX_VOCABULARY_BYTES).get("added_tokens") if file.is_file() else None
    )
    stated = read_optional(path / FILES[1]).get("added_tokens_decoder")
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
    """Returns the tokens that are found in texts, with the letters of `model.tokenizer`: not the
    special tokens of every tokenizer, those of `languages` and tags, which a text must not
    contain."""
    return {
        token: "".join(letter for name, letter in _LETTERS.items() if entry.get(name) is True)
        for token, entry in entries.items()
        if token not in _SPECIAL
        and token not in languages
        and not _TAG.fullmatch(token)
        and not language_code_of(token)
    }


def language_code_of(token: Any) -> str | None:
    """Returns the code in a language token: en of __en__, eng_Latn of eng_Latn; None for other
    tokens."""
    stated = _LANGUAGE.fullmatch(token) if isinstance(token, str) else None
    return stated and (stated[1] or stated[2])
