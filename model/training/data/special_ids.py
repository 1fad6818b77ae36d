"""Ids of the special tokens of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of padding, start and end of a sequence, and of the language tags by language code."""

    pad: int
    start: int
    end: int
    tags: dict[str, int]


def special_ids(processor: Any, languages: Iterable[str]) -> SpecialIds:
    """Returns the special ids of a SentencePiece vocabulary with the tags of `languages`."""
    tags = {language: processor.piece_to_id(f">>{language}<<") for language in languages}
    return SpecialIds(processor.pad_id(), processor.bos_id(), processor.eos_id(), tags)
