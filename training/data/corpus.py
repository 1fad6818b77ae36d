"""Sentence pairs in files of lines `source TAB english TAB other`, their weights, and the joint
vocabulary that is trained on them."""

from __future__ import annotations

import lzma
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import sentencepiece

from model.symbols import SYMBOLS
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


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of start and end of a sequence, and of the language tags by language code."""

    start: int
    end: int
    tags: dict[str, int]


def special_ids(processor: Any, languages: Iterable[str]) -> SpecialIds:
    tags = {language: processor.piece_to_id(f">>{language}<<") for language in languages}
    return SpecialIds(processor.bos_id(), processor.eos_id(), tags)


def train_vocabulary(recipe: Recipe, folder: Path, seed: int = 1) -> Path:
    """Trains the joint vocabulary on a sample of the pairs, drawn by their weights. Returns the
    path of the written `folder`/tokenizer.model."""
    pick = random.Random(seed)
    sample = [
        text
        for file in recipe.data.files
        for pair in read_pairs(Path(file))
        if pick.random() < weight_of(recipe, pair.source)
        for text in (pair.english, pair.other)
    ]
    pick.shuffle(sample)
    folder.mkdir(parents=True, exist_ok=True)
    prefix = folder / "tokenizer"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sample[: recipe.vocabulary.sentences]),
        model_prefix=str(prefix),
        vocab_size=recipe.vocabulary.size,
        model_type="unigram",
        byte_fallback=True,
        character_coverage=0.9999,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=[f">>{language}<<" for language in recipe.languages],
        user_defined_symbols=list(SYMBOLS),
        normalization_rule_name="nmt_nfkc",
        remove_extra_whitespaces=True,
        split_digits=True,
        hard_vocab_limit=False,  # a small corpus gives a smaller vocabulary
        minloglevel=1,
        num_threads=2,
    )
    prefix.with_suffix(".vocab").unlink(missing_ok=True)
    return prefix.with_suffix(".model")
