"""Sentence pairs: reading `source TAB english TAB other` files, the joint vocabulary, and tokenised shards of numpy arrays."""

from __future__ import annotations

import lzma
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.training.recipe import Recipe, RecipeError


@dataclass(frozen=True, slots=True)
class Pair:
    """One sentence pair: where it comes from, the other language's code, both texts."""

    source: str
    language: str
    english: str
    other: str


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

    def save(self, path: Path) -> None:
        np.savez(
            path, english=self.english, other=self.other, english_at=self.english_at, other_at=self.other_at,
            group=self.group, groups=np.array(self.groups),
        )

    @classmethod
    def load(cls, path: Path) -> Shard:
        with np.load(path, allow_pickle=False) as data:
            return cls(
                data["english"], data["other"], data["english_at"], data["other_at"], data["group"],
                tuple(str(name) for name in data["groups"]),
            )


def language_of(path: Path) -> str:
    """The language that stands beside English in a file, from `en-XX` in its name."""
    match = re.search(r"\ben-([a-z]{2,3})\b", path.name)
    if match is None:
        raise RecipeError(f"{path.name} must have en-XX in its name to tell its language.")
    return match.group(1)


def read_pairs(path: Path) -> Iterator[Pair]:
    """Pairs of a .tsv or .tsv.xz file, streamed; two columns (development sets) get the file's stem as source."""
    language = language_of(path)
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            columns = line.rstrip("\n").split("\t")
            if len(columns) == 3:
                yield Pair(columns[0], language, columns[1], columns[2])
            elif len(columns) == 2:
                yield Pair(path.name.split(".")[0], language, columns[0], columns[1])


def weight_of(recipe: Recipe, source: str, language: str) -> float:
    """How often per epoch a pair of this source is seen."""
    weights = recipe.data.weights
    return float(weights.get(f"{source}:{language}", weights.get(source, recipe.data.default_weight)))


def train_vocabulary(recipe: Recipe, folder: Path, seed: int = 1) -> Path:
    """Train the joint vocabulary on a sample drawn with the training weights: writes folder/tokenizer.model."""
    pick = random.Random(seed)
    sample = [
        text
        for file in recipe.data.files
        for pair in read_pairs(Path(file))
        if pick.random() < weight_of(recipe, pair.source, pair.language)
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
        pad_id=0, unk_id=1, bos_id=2, eos_id=3,
        control_symbols=[f">>{language}<<" for language in recipe.languages],
        normalization_rule_name="nmt_nfkc",
        remove_extra_whitespaces=True,
        split_digits=True,
        hard_vocab_limit=False,  # a small corpus gives a smaller vocabulary
        minloglevel=1,
        num_threads=2,
    )
    prefix.with_suffix(".vocab").unlink(missing_ok=True)
    return prefix.with_suffix(".model")


def tokenise(recipe: Recipe, tokenizer: Path, path: Path) -> Shard:
    """Encode every pair with a positive weight that fits `max_tokens` and `max_ratio`, and save the shard to `path`."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    limit, ratio = recipe.data.max_tokens, recipe.data.max_ratio
    english: list[NDArray[np.uint16]] = []
    other: list[NDArray[np.uint16]] = []
    group: list[int] = []
    names: dict[str, int] = {}
    for file in recipe.data.files:
        pairs = [p for p in read_pairs(Path(file)) if weight_of(recipe, p.source, p.language) > 0]
        left = processor.encode([pair.english for pair in pairs])
        right = processor.encode([pair.other for pair in pairs])
        for pair, a, b in zip(pairs, left, right, strict=True):
            longer, shorter = max(len(a), len(b)), min(len(a), len(b))
            if shorter == 0 or longer > limit or longer > ratio * shorter + 5:
                continue
            english.append(np.array(a, dtype=np.uint16))
            other.append(np.array(b, dtype=np.uint16))
            group.append(names.setdefault(f"{pair.source}:{pair.language}", len(names)))
    shard = Shard(
        np.concatenate(english), np.concatenate(other), _starts(english), _starts(other),
        np.array(group, dtype=np.uint8), tuple(names),
    )
    shard.save(path)
    return shard


def _starts(arrays: list[NDArray[np.uint16]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
