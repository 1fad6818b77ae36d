"""The trainer of a recipe: its model, its shard's batches and its validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sentencepiece
import torch

from model.config import PRESETS, ModelConfig
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.data.augment import build_augmenter
from training.data.batches import Batches, BatchProcesses
from training.data.shards import Shard
from training.data.vocabulary import special_ids
from training.loop.checkpoint import checkpoints, start_from
from training.loop.hardware import rank_and_world_size, row_multiple
from training.loop.trainer import Trainer
from training.loop.validation import Validator
from training.recipe import Recipe


def build_trainer(recipe: Recipe, folder: Path, processes: int = 0) -> Trainer:
    """Returns the trainer of `recipe` on the shard in `folder`; `processes` make its batches, 0 for
    a thread of this one. Raises RecipeError, OSError or ValueError if recipe and folder do not fit
    together."""
    rank, ranks = rank_and_world_size()
    torch.manual_seed(recipe.train.seed)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    model = Transformer(model_config(recipe, processor))
    if recipe.train.start is not None and not checkpoints(folder):
        start_from(Path(recipe.train.start), model, folder / "tokenizer.model")
    ids = special_ids(processor, recipe.languages)
    shard = Shard.load(folder, "pairs")
    augmenter = build_augmenter(recipe, shard, processor)
    batch_tokens, multiple = recipe.train.batch_tokens // ranks, row_multiple()
    batches = Batches(
        shard, recipe, ids, augmenter, batch_tokens, rank=rank, ranks=ranks, multiple=multiple
    )
    tags = {language: f">>{language}<<" for language in recipe.languages}
    tokenizer = Tokenizer(folder / "tokenizer.model", tags=tags, eos_id=ids.end)
    validator = Validator(recipe, folder, model, tokenizer, ids)
    made = BatchProcesses(batches, processes) if processes else batches
    return Trainer(recipe.train, folder, model, made, validator.scores)


def model_config(recipe: Recipe, processor: Any) -> ModelConfig:
    """Returns the recipe's model shape with the sizes and ids of the vocabulary."""
    return PRESETS[recipe.preset](
        processor.get_piece_size(),
        **recipe.model,
        pad_id=processor.pad_id(),
        unk_id=processor.unk_id(),
        bos_id=processor.bos_id(),
        eos_id=processor.eos_id(),
        decoder_start_id=processor.bos_id(),
    )
