"""The training loop: resumes from the newest checkpoint, logs lines of JSON, writes checkpoints and validates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import distributed
from tqdm import tqdm

from model.attention import MultiHeadAttention
from model.config import PRESETS, ModelConfig
from model.tokenizer import Tokenizer
from model.training.data.augment import Augmenter, needs_names
from model.training.data.batch import Batch
from model.training.data.batches import Batches
from model.training.data.prefetch import Prefetch
from model.training.data.shards import Shard
from model.training.data.special_ids import SpecialIds, special_ids
from model.training.loop import checkpoint
from model.training.loop.checkpoint import Progress, checkpoints
from model.training.loop.chunked_loss import chunked_projection_loss
from model.training.loop.gradients import Gradients
from model.training.loop.hardware import (
    autocast,
    compile_layers,
    narrow_activations,
    peak_flops,
    rank_and_world_size,
    training_device,
)
from model.training.loop.log_window import LogWindow
from model.training.loop.loss import Projection, batch_loss
from model.training.loop.optimizers import build_optimizers, set_rates
from model.training.loop.qk_clip import QKClip
from model.training.loop.start import start_from
from model.training.loop.step_clock import StepClock
from model.training.loop.validation import Validator
from model.training.recipe import Recipe
from model.transformer import Transformer

NAMES_FILE = "names.json"
"""Names that occur on both sides of pairs, written by `prepare` for augmentation."""
_LOG_STEPS = 20
_CPU_PREFETCH, _GPU_PREFETCH = 4, 48
"""Batches that are built in advance. A GPU needs more, so that it does not wait while an epoch is drawn."""
Stream = Iterator[tuple[int, int, Batch]]
"""(epoch, index of the batch in the epoch, batch)."""


class Trainer:
    """Trains the model of `recipe` on the shard in `folder`, and writes log and checkpoints there.

    `peak` is the peak rate of the device in FLOP/s, for the log; by default it comes from a table of known GPUs.
    Raises RecipeError, OSError or ValueError if recipe and folder do not fit together.
    """

    def __init__(self, recipe: Recipe, folder: Path, peak: float | None = None) -> None:
        self.recipe, self.folder = recipe, folder
        self.rank, self.ranks = rank_and_world_size()
        self.device = training_device()
        self._gpu = self.device.type == "cuda"
        self._peak = peak or peak_flops(self.device)
        torch.manual_seed(recipe.train.seed)
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        self.config = model_config(recipe, processor)
        self.model = self._build_model(processor)
        self.optimizers = build_optimizers(self.model, recipe.train)
        self._gradients = Gradients(self.model.parameters())
        self._clip = QKClip(self.model, recipe.train.logit_bound) if recipe.train.logit_bound else None
        ids = special_ids(processor, recipe.languages)
        self.batches = self._build_batches(processor, ids)
        tags = {language: f">>{language}<<" for language in recipe.languages}
        tokenizer = Tokenizer(folder / "tokenizer.model", tags=tags, eos_id=ids.end)
        self._validator = Validator(recipe, folder, self.model, tokenizer, ids)
        self.progress = checkpoint.load(folder, self.model, self.optimizers, self.device) or Progress()
        self._projection: Projection = compile_layers(self.model) if self._gpu else chunked_projection_loss
        self._rate, self._stopping = 0.0, False
        self._window = LogWindow()

    def _build_model(self, processor: Any) -> Transformer:
        recipe = self.recipe.train
        model = Transformer(self.config).to(self.device)
        if recipe.start is not None and not checkpoints(self.folder):
            start_from(Path(recipe.start), model, processor, recipe.fresh)
        narrow_activations(model)
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                module.weight_dropout = recipe.attention_dropout
        return model

    def _build_batches(self, processor: Any, ids: SpecialIds) -> Batches:
        recipe = self.recipe
        augmenter = build_augmenter(recipe, self.folder, processor)
        batch_tokens = recipe.train.batch_tokens // (recipe.train.accumulate * self.ranks)
        shard = Shard.load(self.folder, "pairs")
        return Batches(shard, recipe, ids, augmenter, batch_tokens, rank=self.rank, ranks=self.ranks)

    def run(self) -> None:
        """Trains until the recipe's steps or minutes are used up, or until `stop`."""
        recipe, progress = self.recipe.train, self.progress
        # The bar shows the share of the budget, so its remaining time is right for steps and for minutes.
        bar = tqdm(
            total=1.0, initial=self._budget_used(), disable=self.rank > 0, mininterval=5.0,
            bar_format="{percentage:5.1f}% |{bar}| {elapsed} < {remaining}{postfix}",
        )  # fmt: skip
        saved = validated = progress.seconds
        clock = StepClock(progress.seconds)
        self.model.train()
        with Prefetch(self._stream(), _GPU_PREFETCH if self._gpu else _CPU_PREFETCH) as stream:
            while self._budget_used() < 1.0 and not self._stopping:
                self._step(stream)
                progress.seconds = self._synchronised(clock.add_step())
                bar.update(self._budget_used() - bar.n)
                if progress.step % _LOG_STEPS == 0:
                    bar.set_postfix_str(self._log_window())
                if progress.seconds - saved >= 60 * recipe.checkpoint_minutes:
                    self.save()
                    saved = progress.seconds
                    clock.add_other()
                if progress.seconds - validated >= 60 * recipe.validate_minutes:
                    self.validate()
                    validated = progress.seconds
                    clock.add_other()
        self.save()
        if not self._stopping:
            self.validate()
        bar.close()

    def stop(self) -> None:
        """Makes `run` return after the current step with a checkpoint. A later run resumes the schedule there."""
        self._stopping = True

    def save(self) -> None:
        """Writes a checkpoint."""
        if self.rank == 0:
            checkpoint.save(self.folder, self.model, self.optimizers, self.progress, self.recipe.train.keep)

    def validate(self) -> None:
        """Logs development loss, head health and translation scores; see `Validator`."""
        if self.rank == 0:
            scores = self._validator.scores(self.device)
            self.model.train()
            self._log(scores)

    def _stream(self) -> Stream:
        """Yields batches from the current progress on, in page-locked memory if a GPU reads them."""
        if self._gpu:
            torch.cuda.set_device(self.device)  # the device is set per thread, and this runs in the prefetch thread
        for epoch, index, batch in self.batches.stream(self.progress.epoch, self.progress.index):
            yield epoch, index, batch.pinned() if self._gpu else batch

    def _step(self, stream: Stream) -> None:
        """Runs one optimiser step over `accumulate` batches. On a GPU the step is only queued; the host does not wait."""
        recipe, progress = self.recipe.train, self.progress
        self._rate = set_rates(self.optimizers, recipe, self.config.d_model, progress.step + 1, self._budget_used())
        for _ in range(recipe.accumulate):
            progress.epoch, progress.index, batch = next(stream)
            progress.index += self.ranks
            with autocast(self.device):
                loss = batch_loss(
                    self.model,
                    batch.to(self.device),
                    recipe.label_smoothing,
                    self._projection,
                    hidden_ends=recipe.hidden_ends,
                )
            (loss / recipe.accumulate).backward()  # type: ignore[no-untyped-call]
            self._window.add(loss.detach(), batch)
            progress.tokens += batch.tokens * self.ranks
        self._gradients.average(self.ranks)
        self._gradients.clip(recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        self._gradients.zero()
        progress.step += 1
        if self._clip is not None and progress.step % recipe.logit_steps == 0:
            self._clip_logits(self._clip, batch)

    def _clip_logits(self, clip: QKClip, batch: Batch) -> None:
        """Clips on rank 0 and sends the clipped weights to all ranks."""
        if self.rank == 0:
            self._window.largest_logit = clip.clip(batch.to(self.device))
        if self.ranks > 1:
            for name, parameter in self.model.named_parameters():
                if ".query." in name or ".key." in name:
                    distributed.broadcast(parameter.data, 0)

    def _synchronised(self, seconds: float) -> float:
        """Returns rank 0's `seconds` and takes over its stop flag, so that all ranks use the same budget and stop together."""
        if self.ranks == 1:
            return seconds
        shared = torch.tensor([seconds, float(self._stopping)], dtype=torch.float64, device=self.device)
        distributed.broadcast(shared, 0)
        seconds, stopping = shared.tolist()
        self._stopping = stopping > 0.0
        return float(seconds)

    def _budget_used(self) -> float:
        """Returns the used share of the budget: of the steps or of the minutes, whichever is larger."""
        recipe = self.recipe.train
        share = self.progress.step / recipe.steps
        if recipe.minutes is not None:
            share = max(share, self.progress.seconds / (60 * recipe.minutes))
        return share

    def _log_window(self) -> str:
        """Logs the current window and starts a new one. Returns a text for the progress bar."""
        window, self._window = self._window, LogWindow()
        values = window.values(self.config, self._peak, self.ranks)
        if self.rank == 0:
            self._log(values)
        return f"step {self.progress.step}, loss {values['loss']:.3f}, {values['tokens_per_second']} tokens/s"

    def _log(self, values: dict[str, Any]) -> None:
        line = {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "tokens": self.progress.tokens,
            "seconds": round(self.progress.seconds, 1),
            "rate": self._rate,
            **values,
        }
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


def build_augmenter(recipe: Recipe, folder: Path, processor: Any) -> Augmenter | None:
    """Returns the augmenter of a training, None for a recipe that rewrites no pairs."""
    if not (recipe.data.augment or recipe.data.back_translated):
        return None
    names = json.loads((folder / NAMES_FILE).read_text(encoding="utf-8")) if needs_names(recipe) else []
    return Augmenter(processor, recipe.data.augment, names)


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
