"""The joint vocabulary: its training, and the ids of its special tokens."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece

from model.symbols import SYMBOLS
from training.data.corpus import read_pairs, weight_of
from training.recipe import Recipe


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
