"""The training loop: resumes from where it was killed, logs a line of JSON a step window, keeps the last checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor, distributed, nn
from tqdm import tqdm

from model.attention import MultiHeadAttention
from model.backends.torch.backend import TorchBackend
from model.backends.torch.head_health import model_health, summary
from model.config import PRESETS, ModelConfig
from model.search.options import DecodingOptions
from model.tokenizer import Tokenizer
from model.training.data.augment import Augmenter
from model.training.data.batches import Batch, Batches, Specials
from model.training.data.corpus import read_pairs
from model.training.data.prefetch import Prefetch
from model.training.data.shards import Shard
from model.training.loop import checkpoint as state
from model.training.loop.checkpoint import Progress, checkpoints
from model.training.loop.chunked_loss import chunked_projection_loss
from model.training.loop.evaluate import score_directions
from model.training.loop.hardware import (
    autocast,
    compile_layers,
    peak_flops,
    plain,
    ranks,
    training_device,
    training_flops,
)
from model.training.loop.loss import Projection, batch_loss, perplexity_loss
from model.training.loop.manifest import has_manifest
from model.training.loop.optimizers import build_optimizers, set_rates
from model.training.loop.qk_clip import QKClip
from model.training.loop.start import start_from
from model.training.recipe import Recipe
from model.transformer import Transformer

NAMES = "names.json"
"""Names that stand on both sides of pairs, found when the data is prepared."""
_LOG_STEPS = 20
_AHEAD = 4, 48
"""Batches made ahead: on a CPU, which makes them itself, and for a GPU, which must not wait while an epoch is drawn."""
_VALIDATION_SLOTS = 64, 512
_HEALTH_ROWS = 50
"""Sentences on which the health of heads is measured."""
Stream = Iterator[tuple[int, int, Batch]]


class Trainer:
    """Trains `recipe` on the shard in `folder` and keeps everything it writes there. `peak` is the device's best rate in
    FLOP/s, for the log; where it is not given a table of devices tells."""

    def __init__(self, recipe: Recipe, folder: Path, peak: float | None = None) -> None:
        self.recipe, self.folder = recipe, folder
        self.rank, self.ranks = ranks()
        self.device = training_device()
        self._gpu = self.device.type == "cuda"
        self._peak = peak or peak_flops(self.device)
        torch.manual_seed(recipe.train.seed)
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        self.config = model_config(recipe, processor)
        self.model = Transformer(self.config).to(self.device)
        if recipe.train.start is not None and not checkpoints(folder):
            start_from(Path(recipe.train.start), self.model, processor, recipe.train.fresh)
        for module in self.model.modules():
            if isinstance(module, MultiHeadAttention):
                module.weight_dropout = recipe.train.attention_dropout
        self.optimizers = build_optimizers(self.model, recipe.train)
        self._clip = QKClip(self.model, recipe.train.logit_bound) if recipe.train.logit_bound else None
        specials = specials_of(recipe, processor)
        tags = {language: f">>{language}<<" for language in recipe.languages}
        self._tokenizer = Tokenizer(folder / "tokenizer.model", tags=tags, eos_id=processor.eos_id())
        part = recipe.train.batch_tokens // (recipe.train.accumulate * self.ranks)
        shard = Shard.load(folder, "pairs")
        names = json.loads((folder / NAMES).read_text(encoding="utf-8")) if needs_names(recipe) else []
        augmenter = Augmenter(processor, recipe.data.augment, names) if recipe.data.augment else None
        self.batches = Batches(shard, recipe, specials, augmenter, part, rank=self.rank, ranks=self.ranks)
        self.development = self._development(specials) if has_manifest(folder, "development") else []
        self._references = development_pairs(recipe)  # a file that is missing is named now, not at the first validation
        self.progress = state.load(folder, self.model, self.optimizers, self.device) or Progress()
        self._projection: Projection = compile_layers(self.model) if self._gpu else chunked_projection_loss
        self._rate, self._stopping = 0.0, False
        self._window = _Window()

    def run(self) -> None:
        """Train until the recipe's steps or minutes are used up, or until `stop`."""
        recipe, progress = self.recipe.train, self.progress
        # The bar counts the budget, steps or minutes, so that the time it says is left is right for either.
        bar = tqdm(
            total=1.0, initial=self._share(), disable=self.rank > 0, mininterval=5.0,
            bar_format="{percentage:5.1f}% |{bar}| {elapsed} < {remaining}{postfix}",
        )  # fmt: skip
        saved = validated = progress.seconds
        began = time.monotonic() - progress.seconds
        self.model.train()
        with Prefetch(self._stream(), _AHEAD[self._gpu]) as stream:
            while self._share() < 1.0 and not self._stopping:
                self._step(stream)
                progress.seconds = self._agreed(time.monotonic() - began)
                bar.update(self._share() - bar.n)
                if progress.step % _LOG_STEPS == 0:
                    bar.set_postfix_str(self._log_window())
                if progress.seconds - saved >= 60 * recipe.checkpoint_minutes:
                    self.save()
                    saved = progress.seconds
                if progress.seconds - validated >= 60 * recipe.validate_minutes:
                    self.validate()
                    validated = progress.seconds
        self.save()
        if not self._stopping:
            self.validate()
        bar.close()

    def stop(self) -> None:
        """Save after the step that runs and leave `run`; the schedule goes on from there when training resumes."""
        self._stopping = True

    def _stream(self) -> Stream:
        """Batches from where the training is, page-locked where a GPU will fetch them."""
        if self._gpu:
            torch.cuda.set_device(self.device)  # of the thread that this runs in
        for epoch, index, batch in self.batches.stream(self.progress.epoch, self.progress.index):
            yield epoch, index, batch.pinned() if self._gpu else batch

    def _step(self, stream: Stream) -> None:
        """One optimiser step over `accumulate` batches. On a GPU it is only queued: the host does not wait for it."""
        recipe, progress = self.recipe.train, self.progress
        self._rate = set_rates(self.optimizers, recipe, self.config.d_model, progress.step + 1, self._share())
        for _ in range(recipe.accumulate):
            progress.epoch, progress.index, batch = next(stream)
            progress.index += self.ranks
            with autocast(self.device):
                loss = batch_loss(
                    self.model, batch.to(self.device), recipe.label_smoothing, self._projection, hidden_ends=recipe.hidden_ends
                )
            (loss / recipe.accumulate).backward()  # type: ignore[no-untyped-call]
            self._window.add(loss.detach(), batch)
            progress.tokens += batch.tokens * self.ranks
        self._average_gradients()
        nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        progress.step += 1
        if self._clip is not None and progress.step % recipe.logit_steps == 0:
            self._clip_logits(self._clip, batch)

    def _clip_logits(self, clip: QKClip, batch: Batch) -> None:
        """Rank 0 measures; all ranks go on from its weights."""
        if self.rank == 0:
            self._window.largest_logit = clip.clip(batch.to(self.device))
        if self.ranks > 1:
            for name, parameter in self.model.named_parameters():
                if ".query." in name or ".key." in name:
                    distributed.broadcast(parameter.data, 0)

    def _share(self) -> float:
        """Share of the budget used: of the steps or of the minutes, whichever is further."""
        recipe = self.recipe.train
        share = self.progress.step / recipe.steps
        if recipe.minutes is not None:
            share = max(share, self.progress.seconds / (60 * recipe.minutes))
        return share

    # -- state on disk ---------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint."""
        if self.rank == 0:
            state.save(self.folder, self.model, self.optimizers, self.progress, self.recipe.train.keep)

    def validate(self) -> None:
        """Loss on the development pairs, and BLEU and chrF of greedy translations of some of them; logged."""
        if self.rank > 0:
            return
        self.model.eval()
        scores: dict[str, Any] = {}
        with plain():
            if self.development:
                with autocast(self.device):
                    batches = [batch.to(self.device) for batch in self.development]
                    scores["development_loss"] = perplexity_loss(self.model, batches)
                scores["heads"] = self._head_health(batches)
            scores.update(self._translation_scores())
        self.model.train()
        self._log(scores)

    def _head_health(self, batches: Sequence[Batch]) -> dict[str, object]:
        """Figures of every head on the development batch of the widest sources: short ones leave little to look at."""
        widest = max(batches, key=lambda batch: batch.source.shape[1])
        return summary(model_health(self.model, widest.source[:_HEALTH_ROWS], widest.target[:_HEALTH_ROWS]))

    def _translation_scores(self) -> dict[str, Any]:
        """Mean BLEU and chrF over the directions, and each direction's, of greedy translations."""
        pairs = self._references
        if not pairs:
            return {}
        backend = TorchBackend(self.model, min(_VALIDATION_SLOTS[self._gpu], max(map(len, pairs.values()))))
        scores = score_directions(backend, self._tokenizer, self.config, pairs, DecodingOptions())
        return {
            "bleu": sum(score.bleu for score in scores.values()) / len(scores),
            "chrf": sum(score.chrf for score in scores.values()) / len(scores),
            "directions": {"-".join(way): [round(one.bleu, 2), round(one.chrf, 2)] for way, one in scores.items()},
        }

    def _log_window(self) -> str:
        """Log the steps since the last time and begin anew; returns a line for people."""
        window, self._window = self._window, _Window()
        values = window.values(self.config, self._peak)
        if self.rank == 0:
            self._log(values)
        return f"step {self.progress.step}, loss {values['loss']:.3f}, {values['tokens_per_second']} tokens/s"

    def _log(self, values: dict[str, Any]) -> None:
        line = {
            "step": self.progress.step, "epoch": self.progress.epoch, "tokens": self.progress.tokens,
            "seconds": round(self.progress.seconds, 1), "rate": self._rate, **values,
        }
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    # -- the device ------------------------------------------------------------------------------------------------

    def _average_gradients(self) -> None:
        """Mean over ranks. Gradients are averaged after accumulation, which DDP's hooks would do once per part."""
        if self.ranks > 1:
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    distributed.all_reduce(parameter.grad)
                    parameter.grad /= self.ranks

    def _agreed(self, seconds: float) -> float:
        """Rank 0's clock, so that all ranks see the same share of the budget; rank 0 also says whether all stop now."""
        if self.ranks == 1:
            return seconds
        shared = torch.tensor([seconds, float(self._stopping)], dtype=torch.float64, device=self.device)
        distributed.broadcast(shared, 0)
        seconds, stopping = shared.tolist()
        self._stopping = stopping > 0.0
        return float(seconds)

    def _development(self, specials: Specials) -> list[Batch]:
        """A fixed sample of the development pairs, both directions."""
        stream = Batches(Shard.load(self.folder, "development"), self.recipe, specials, None, 4200).stream()
        batches: list[Batch] = []
        while sum(len(batch.source) for batch in batches) < 2 * self.recipe.train.validate_sentences:
            epoch, _, batch = next(stream)
            if epoch > 0:
                break
            batches.append(batch)
        return batches


class _Window:
    """Losses and tokens of the steps since the last line of the log. Losses stay on the device until they are asked for."""

    def __init__(self) -> None:
        self._loss: Tensor | float = 0.0
        self._tokens = self._source_tokens = 0
        self.largest_logit: float | None = None
        self._began = time.monotonic()

    def add(self, loss: Tensor, batch: Batch) -> None:
        self._loss = self._loss + loss * batch.tokens
        self._tokens += batch.tokens
        self._source_tokens += batch.source_tokens

    def values(self, config: ModelConfig, peak: float | None) -> dict[str, Any]:
        """Mean loss, this rank's speed in target tokens a second, and the share of the device's peak."""
        loss = float(self._loss) / max(1, self._tokens)  # waits for the device, so that the clock is right
        seconds = time.monotonic() - self._began
        values: dict[str, Any] = {"loss": loss, "tokens_per_second": round(self._tokens / seconds)}
        if self.largest_logit is not None:
            values["largest_logit"] = round(self.largest_logit, 2)
        if peak is not None:
            flops = training_flops(config, self._source_tokens, self._tokens)
            values["share_of_peak"] = round(flops / seconds / peak, 4)
        return values


def needs_names(recipe: Recipe) -> bool:
    """Whether an augmentation of the recipe must tell names from other words."""
    return any(recipe.data.augment.get(kind) for kind in ("names", "placeholders"))


def development_pairs(recipe: Recipe) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """The first `validate_sentences` (source text, reference) pairs of every direction of the development files."""
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for file in recipe.data.development:
        for pair in islice(read_pairs(Path(file)), recipe.train.validate_sentences):
            pairs.setdefault(("en", pair.language), []).append((pair.english, pair.other))
            pairs.setdefault((pair.language, "en"), []).append((pair.other, pair.english))
    return pairs


def model_config(recipe: Recipe, processor: Any) -> ModelConfig:
    """The recipe's shape with the tokenizer's ids."""
    return PRESETS[recipe.preset](
        processor.get_piece_size(), **recipe.model,
        pad_id=processor.pad_id(), unk_id=processor.unk_id(), bos_id=processor.bos_id(), eos_id=processor.eos_id(),
        decoder_start_id=processor.bos_id(),
    )


def specials_of(recipe: Recipe, processor: Any) -> Specials:
    """Ids that frame the sequences of this tokenizer."""
    tags = {language: processor.piece_to_id(f">>{language}<<") for language in recipe.languages}
    return Specials(processor.pad_id(), processor.bos_id(), processor.eos_id(), tags)
