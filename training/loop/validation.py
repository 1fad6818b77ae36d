"""Validation during training: development loss, and BLEU and chrF of greedy translations."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import torch

from model.backends.torch.backend import TorchBackend
from model.evaluation import score, translate_texts
from model.search.options import DecodingOptions
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.data.batches import Batch, Batches
from training.data.corpus import SpecialIds, read_pairs
from training.data.shards import Shard, shard_file
from training.loop.hardware import autocast, without_compilation
from training.loop.loss import perplexity_loss
from training.recipe import Recipe

_BATCH_TOKENS = 4200
_CPU_SLOTS, _GPU_SLOTS = 64, 512
"""Sentences that are translated together."""
_LOSS_BATCHES = 8
"""Batches of the development loss: some 25,000 target tokens."""


class Validator:
    """Measures `model` on the recipe's development files. The loss uses the development shard in
    `folder`, if there is one. Raises OSError if a development file cannot be read, so that this
    shows before training."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        model: Transformer,
        tokenizer: Tokenizer,
        ids: SpecialIds,
    ) -> None:
        self._model, self._tokenizer = model, tokenizer
        batches = (
            _development_batches(recipe, folder, ids)
            if shard_file(folder, "development").exists()
            else []
        )
        # Their order is random. Batches of short sentences have many of them, so batches are
        # counted.
        self._batches = batches[:_LOSS_BATCHES]
        self._pairs = development_pairs(recipe)

    def scores(self, device: torch.device) -> dict[str, Any]:
        """Returns the log fields of a validation. The model is in evaluation mode afterwards."""
        self._model.eval()
        scores: dict[str, Any] = {}
        with without_compilation():
            if self._batches:
                batches = [batch.to(device) for batch in self._batches]
                with autocast(device):
                    scores["development_loss"] = perplexity_loss(self._model, batches)
            if self._pairs:
                scores.update(
                    self._translation_scores(_GPU_SLOTS if device.type == "cuda" else _CPU_SLOTS)
                )
        return scores

    def _translation_scores(self, slots: int) -> dict[str, Any]:
        """Returns BLEU and chrF of greedy translations, as the mean over directions and for each
        one."""
        backend = TorchBackend(self._model, min(slots, max(map(len, self._pairs.values()))))
        scores = {}
        for (source, target), pairs in self._pairs.items():
            texts, references = zip(*pairs, strict=True)
            translated = translate_texts(
                backend, self._tokenizer, self._model.config, texts, target, DecodingOptions()
            ).texts
            scores[f"{source}-{target}"] = score(translated, references, target)
        return {
            "bleu": sum(item.bleu for item in scores.values()) / len(scores),
            "chrf": sum(item.chrf for item in scores.values()) / len(scores),
            "directions": {
                way: [round(item.bleu, 2), round(item.chrf, 2)] for way, item in scores.items()
            },
        }


def development_pairs(recipe: Recipe) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Returns for every direction (source text, reference) pairs: the first `validate_sentences` of
    each development file."""
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for file in recipe.data.development:
        for pair in islice(read_pairs(Path(file)), recipe.train.validate_sentences):
            pairs.setdefault(("en", pair.language), []).append((pair.english, pair.other))
            pairs.setdefault((pair.language, "en"), []).append((pair.other, pair.english))
    return pairs


def _development_batches(recipe: Recipe, folder: Path, ids: SpecialIds) -> list[Batch]:
    # The development text has none of the sources with one direction.
    recipe = replace(recipe, data=replace(recipe.data, one_way={}, back_translated={}))
    stream = Batches(Shard.load(folder, "development"), recipe, ids, None, _BATCH_TOKENS).stream()
    return [batch for _, _, batch in takewhile(lambda item: item[0] == 0, stream)]
