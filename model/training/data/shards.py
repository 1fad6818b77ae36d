"""Tokenised pairs: arrays of ids in memory, and on disk compressed parts small enough to be carried one by one."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.training.data.corpus import Pair, read_pairs, weight_of
from model.training.loop.manifest import read_manifest, write_manifest
from model.training.recipe import Recipe, RecipeError

_PART_TOKENS = 8_000_000
"""Tokens of both sides in one part: 16 MB before compression, which takes them to about 7 bits each."""
_CHUNK = 20_000
"""Pairs that are tokenised together."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Tokenised pairs: ids without specials, concatenated. Pair i is english[english_at[i]:english_at[i+1]] and likewise
    for the other side; `group[i]` indexes `groups`, which are "source:language"."""

    english: NDArray[np.uint16]
    other: NDArray[np.uint16]
    english_at: NDArray[np.int64]
    other_at: NDArray[np.int64]
    group: NDArray[np.uint8]
    groups: tuple[str, ...]

    def save(self, folder: Path, name: str) -> None:
        """Write `folder`/NAME.json and its parts NAME-000.npz ..., LZMA inside: 16 MB each at most, whatever the ids are."""
        total = self.english_at + self.other_at
        cuts = [0]
        while cuts[-1] < len(self.group):
            end = int(np.searchsorted(total, total[cuts[-1]] + _PART_TOKENS, side="right")) - 1
            cuts.append(max(end, cuts[-1] + 1))
        files = [folder / f"{name}-{i:03d}.npz" for i in range(len(cuts) - 1)]
        with ThreadPoolExecutor(_cores()) as threads:  # LZMA works without Python's lock
            list(threads.map(self._save_part, files, cuts, cuts[1:]))
        tokens = {"english": len(self.english), "other": len(self.other)}
        write_manifest(folder, name, files, pairs=len(self.group), tokens=tokens, groups=self.groups)

    def _save_part(self, path: Path, begin: int, end: int) -> None:
        arrays = {
            "english": self.english[self.english_at[begin] : self.english_at[end]],
            "other": self.other[self.other_at[begin] : self.other_at[end]],
            "english_at": np.diff(self.english_at[begin : end + 1], prepend=self.english_at[begin]),
            "other_at": np.diff(self.other_at[begin : end + 1], prepend=self.other_at[begin]),
            "group": self.group[begin:end],
            "groups": np.array(self.groups),
        }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
            for name, array in arrays.items():
                compact = array.astype(np.uint16) if name.endswith("_at") else array
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, compact, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path, name: str) -> Shard:
        """Read all parts of `name` in `folder`. Raises RecipeError where one is missing or damaged."""
        files, _ = read_manifest(folder, name)
        with ThreadPoolExecutor(_cores()) as threads:
            parts = list(threads.map(_load_part, files))
        joined = {key: np.concatenate([part[key] for part in parts]) for key in ("english", "other", "group")}
        starts = {
            key: np.concatenate([[0], np.cumsum(np.concatenate([part[key][1:] for part in parts]).astype(np.int64))])
            for key in ("english_at", "other_at")
        }
        return cls(**joined, **starts, groups=tuple(str(name) for name in parts[0]["groups"]))


def tokenise(recipe: Recipe, tokenizer: Path) -> Shard:
    """Encode every pair with a positive weight that fits `max_tokens` and `max_ratio`."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    limit, ratio = recipe.data.max_tokens, recipe.data.max_ratio
    sides: tuple[list[NDArray[np.uint16]], list[NDArray[np.uint16]]] = ([], [])
    lengths: tuple[list[int], list[int]] = ([], [])
    group: list[int] = []
    names: dict[str, int] = {}
    for pairs in _chunks(recipe):
        left = processor.encode([pair.english for pair in pairs], num_threads=_cores())
        right = processor.encode([pair.other for pair in pairs], num_threads=_cores())
        kept: tuple[list[int], list[int]] = ([], [])
        for pair, *both in zip(pairs, left, right, strict=True):
            shorter, longer = sorted(map(len, both))
            if shorter == 0 or longer > limit or longer > ratio * shorter + 5:
                continue
            group.append(names.setdefault(f"{pair.source}:{pair.language}", len(names)))
            for side, ids in enumerate(both):
                kept[side].extend(ids)
                lengths[side].append(len(ids))
        for ids, found in zip(sides, kept, strict=True):
            ids.append(np.array(found, dtype=np.uint16))
    if not group:
        raise RecipeError("No pair of the recipe's files fits max_tokens and max_ratio.")
    english_at, other_at = (np.concatenate([[0], np.cumsum(side)]).astype(np.int64) for side in lengths)
    return Shard(
        np.concatenate(sides[0]), np.concatenate(sides[1]), english_at, other_at, np.array(group, dtype=np.uint8),
        tuple(names),
    )  # fmt: skip


def _chunks(recipe: Recipe) -> Iterator[list[Pair]]:
    for file in recipe.data.files:
        wanted = (p for p in read_pairs(Path(file)) if weight_of(recipe, p.source, p.language) > 0)
        while chunk := list(islice(wanted, _CHUNK)):
            yield chunk


def _load_part(path: Path) -> dict[str, NDArray[np.generic]]:
    with np.load(path, allow_pickle=False) as data:
        return {name: data[name] for name in data.files}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
