"""Tokenised sentence pairs: arrays of token ids in memory, one compressed .npz file on disk."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.atomic_write import atomic_write
from training.data.corpus import Pair, read_pairs, weight_of
from training.recipe import Recipe, RecipeError

_CHUNK = 20_000
"""Number of pairs that are tokenised in one call."""
_MAX_PIECES = 1 << 16
"""A shard has ids of 16 bits."""
_MAX_RATIO = 2.5
"""Pairs with a larger ratio of lengths are left out."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Concatenated token ids of pairs, without special ids. `english_offsets` and `other_offsets`
    are the beginnings of the pairs and the end of the last one. `groups` are names
    "source:language"; `group[i]` is the index of pair i's group."""

    english: NDArray[np.uint16]
    other: NDArray[np.uint16]
    english_offsets: NDArray[np.int64]
    other_offsets: NDArray[np.int64]
    group: NDArray[np.uint16]
    groups: tuple[str, ...]

    @property
    def names(self) -> list[tuple[str, str]]:
        """Source and language of each group."""
        parts = (name.rpartition(":") for name in self.groups)
        return [(source, language) for source, _, language in parts]

    def pair(self, i: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ids of pair i: the English side, and the other."""
        english = self.english[self.english_offsets[i] : self.english_offsets[i + 1]]
        other = self.other[self.other_offsets[i] : self.other_offsets[i + 1]]
        return english.astype(np.int64), other.astype(np.int64)

    def save(self, folder: Path, name: str) -> None:
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        with atomic_write(shard_file(folder, name)) as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, folder: Path, name: str) -> Shard:
        """Reads `folder`/NAME.npz. Raises RecipeError if the file is missing or damaged."""
        path = shard_file(folder, name)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
                arrays = {field.name: data[field.name] for field in fields(cls)}
        except FileNotFoundError:
            raise RecipeError(
                f"There is no {path.name} in {folder}; `prepare` writes it."
            ) from None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            raise RecipeError(f"{path} is damaged; delete it and run `prepare` again.") from None
        return cls(**arrays | {"groups": tuple(str(group) for group in arrays["groups"])})


def shard_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"


def tokenise(recipe: Recipe, tokenizer: Path) -> Shard:
    """Encodes every pair that has a positive weight, fits `max_tokens`, and has sides of similar
    lengths. Raises RecipeError if no pair fits, and for a vocabulary whose ids do not fit into 16
    bits."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    if processor.get_piece_size() > _MAX_PIECES:
        raise RecipeError(
            f"The vocabulary has {processor.get_piece_size()} pieces; at most {_MAX_PIECES} are "
            "possible."
        )
    limit = recipe.data.max_tokens
    sides: tuple[list[NDArray[np.uint16]], list[NDArray[np.uint16]]] = ([], [])
    lengths: tuple[list[int], list[int]] = ([], [])
    group: list[int] = []
    names: dict[str, int] = {}
    for pairs in _chunks(recipe):
        left = processor.encode([pair.english for pair in pairs])
        right = processor.encode([pair.other for pair in pairs])
        kept: tuple[list[int], list[int]] = ([], [])
        for pair, *both in zip(pairs, left, right, strict=True):
            shorter, longer = sorted(map(len, both))
            if shorter == 0 or longer > limit or longer > _MAX_RATIO * shorter + 5:
                continue
            group.append(names.setdefault(f"{pair.source}:{pair.language}", len(names)))
            for side, ids in enumerate(both):
                kept[side].extend(ids)
                lengths[side].append(len(ids))
        for ids, new_ids in zip(sides, kept, strict=True):
            ids.append(np.array(new_ids, dtype=np.uint16))
    if not group:
        raise RecipeError(
            "No pair of the recipe's files fits max_tokens and has sides of similar lengths."
        )
    english_offsets, other_offsets = (
        np.concatenate([[0], np.cumsum(side)]).astype(np.int64) for side in lengths
    )
    groups = np.array(group, dtype=np.uint16)
    english, other = np.concatenate(sides[0]), np.concatenate(sides[1])
    return Shard(english, other, english_offsets, other_offsets, groups, tuple(names))


def _chunks(recipe: Recipe) -> Iterator[list[Pair]]:
    for file in recipe.data.files:
        pairs = (p for p in read_pairs(Path(file)) if weight_of(recipe, p.source) > 0)
        while chunk := list(islice(pairs, _CHUNK)):
            yield chunk
