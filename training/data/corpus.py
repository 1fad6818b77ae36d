"""Sentence pairs in files of lines `source TAB english TAB other`, and their weights."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from training.recipe import Recipe, RecipeError


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence pair: its source, the code of the other language, and both texts."""

    source: str
    language: str
    english: str
    other: str


def language_of(path: Path) -> str:
    """Returns the other language of a file, from `en-XX` in its name. Raises RecipeError."""
    match = re.search(r"\ben-([a-z]{2,3})\b", path.name)
    if match is None:
        raise RecipeError(
            f"{path.name} must have en-XX in its name, with the code of its language."
        )
    return match.group(1)


def open_text(path: Path) -> TextIO:
    """Opens a text file, which may be compressed (.xz)."""
    opener: Any = lzma.open if path.suffix == ".xz" else open
    lines: TextIO = opener(path, "rt", encoding="utf-8", newline="\n")
    return lines


def read_pairs(path: Path) -> Iterator[Pair]:
    """Yields the pairs of a .tsv or .tsv.xz file. Lines of two columns have the beginning of the
    file's name as source. Raises RecipeError for a name without a language, and OSError."""
    language = language_of(path)
    with open_text(path) as lines:
        for line in lines:
            columns = line.rstrip("\n").split("\t")
            if len(columns) == 3:
                yield Pair(columns[0], language, columns[1], columns[2])
            elif len(columns) == 2:
                yield Pair(path.name.split(".")[0], language, columns[0], columns[1])


def weight_of(recipe: Recipe, source: str) -> float:
    """Returns how often per epoch a pair of this source is used, before `temperature`."""
    return float(recipe.data.weights.get(source, recipe.data.default_weight))
