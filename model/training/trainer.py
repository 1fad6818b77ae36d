"""The training loop: resumes from where it was killed, logs a line of JSON a step window, keeps the last checkpoints."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import safetensors.torch
import sentencepiece
import torch
from torch import distributed, nn
from tqdm import tqdm

from model.config import PRESETS, ModelConfig
from model.inference import TorchBackend
from model.options import DecodingOptions
from model.tokenizer import Tokenizer
from model.training.augment import Augmenter, shared_names
from model.training.batches import Batch, Batches, Specials
from model.training.corpus import Shard, read_pairs
from model.training.evaluate import score_directions
from model.training.loss import batch_loss, perplexity_loss
from model.training.optimizers import build_optimizers, set_rates
from model.training.recipe import Recipe
from model.training.start import start_from
from model.transformer import Transformer

_LOG_STEPS = 20


@dataclass(slots=True)
class Progress:
    """How far the training is; saved with every checkpoint."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Trainer:
    """Trains `recipe` on the shard in `folder` and keeps everything it writes there."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.rank, self.ranks = ranks()
        self.device = training_device()
        torch.manual_seed(recipe.train.seed)
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        self.config = model_config(recipe, processor)
        self.model = Transformer(self.config).to(self.device)
        if recipe.train.start is not None and not checkpoints(folder):
            start_from(Path(recipe.train.start), self.model, processor)
        self.optimizers = build_optimizers(self.model, recipe.train)
        self.progress = Progress()
        specials = specials_of(recipe, processor)
        tags = {language: f">>{language}<<" for language in recipe.languages}
        self._tokenizer = Tokenizer(folder / "tokenizer.model", tags=tags, eos_id=processor.eos_id())
        part = recipe.train.batch_tokens // (recipe.train.accumulate * self.ranks)
        shard = Shard.load(folder / "pairs.npz")
        names = shared_names(shard, processor) if recipe.data.augment.get("names") else []
        augmenter = Augmenter(processor, recipe.data.augment, names) if recipe.data.augment else None
        self.batches = Batches(shard, recipe, specials, augmenter, part, rank=self.rank, ranks=self.ranks)
        development = folder / "development.npz"
        self.development = self._development(development, specials) if development.exists() else []
        self.resume()
        self._loss = self._loss_function()

    def run(self) -> None:
        """Train until the recipe's steps or minutes are used up."""
        recipe, progress = self.recipe.train, self.progress
        stream = self.batches.stream(progress.epoch, progress.index)
        # The bar counts the budget, steps or minutes, so that the time it says is left is right for either.
        bar = tqdm(
            total=1.0, initial=self._share(), disable=self.rank > 0, mininterval=5.0,
            bar_format="{percentage:5.1f}% |{bar}| {elapsed} < {remaining}{postfix}",
        )  # fmt: skip
        saved = validated = progress.seconds
        window_loss = window_tokens = 0.0
        window_start = time.monotonic()
        self.model.train()
        while self._share() < 1.0:
            started = time.monotonic()
            loss, tokens = self._step(stream)
            progress.seconds = self._agreed(progress.seconds + time.monotonic() - started)
            window_loss += loss * tokens
            window_tokens += tokens
            bar.update(self._share() - bar.n)
            if progress.step % _LOG_STEPS == 0 and self.rank == 0:
                speed = window_tokens / (time.monotonic() - window_start)
                bar.set_postfix_str(f"step {progress.step}, loss {window_loss / window_tokens:.3f}, {speed:.0f} tokens/s")
                self._log({"loss": window_loss / window_tokens, "tokens_per_second": round(speed)})
                window_loss = window_tokens = 0.0
                window_start = time.monotonic()
            if progress.seconds - saved >= 60 * recipe.checkpoint_minutes:
                self.save()
                saved = progress.seconds
            if progress.seconds - validated >= 60 * recipe.validate_minutes:
                self.validate()
                validated = progress.seconds
        self.save()
        self.validate()
        bar.close()

    def _step(self, stream: Iterator[tuple[int, int, Batch]]) -> tuple[float, int]:
        """One optimiser step over `accumulate` batches: mean loss and number of target tokens."""
        recipe, progress = self.recipe.train, self.progress
        rate = set_rates(self.optimizers, recipe, self.config.d_model, progress.step + 1, self._share())
        total, tokens = 0.0, 0
        for _ in range(recipe.accumulate):
            progress.epoch, progress.index, batch = next(stream)
            progress.index += self.ranks
            with self._autocast():
                loss = self._loss(self._to_device(batch))
            (loss / recipe.accumulate).backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach()) * batch.tokens
            tokens += batch.tokens
        self._average_gradients()
        nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        progress.step += 1
        progress.tokens += tokens * self.ranks
        self._rate = rate
        return total / max(1, tokens), tokens

    def _share(self) -> float:
        """Share of the budget used: of the steps or of the minutes, whichever is further."""
        recipe = self.recipe.train
        share = self.progress.step / recipe.steps
        if recipe.minutes is not None:
            share = max(share, self.progress.seconds / (60 * recipe.minutes))
        return share

    # -- state on disk ---------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write weights of this step (kept: the last `keep`) and everything needed to resume, atomically."""
        if self.rank > 0:
            return
        step = self.progress.step
        weights = {name: tensor.contiguous() for name, tensor in self.model.state_dict().items()}
        safetensors.torch.save_file(weights, self.folder / f"step-{step:07d}.safetensors")
        state: dict[str, Any] = {
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": {name: getattr(self.progress, name) for name in Progress.__slots__},
        }
        partial = self.folder / "state.pt.partial"
        torch.save(state, partial)
        partial.replace(self.folder / "state.pt")
        for old in checkpoints(self.folder)[: -self.recipe.train.keep]:
            old.unlink()

    def resume(self) -> None:
        """Continue from the newest checkpoint in the folder, if there is one."""
        found = checkpoints(self.folder)
        if not found or not (self.folder / "state.pt").exists():
            return
        state = torch.load(self.folder / "state.pt", map_location=self.device, weights_only=True)
        self.progress = Progress(**state["progress"])
        self.model.load_state_dict(safetensors.torch.load_file(self.folder / f"step-{self.progress.step:07d}.safetensors"))
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def validate(self) -> None:
        """Loss on the development pairs, and BLEU and chrF of greedy translations of some of them; logged."""
        if self.rank > 0:
            return
        self.model.eval()
        scores: dict[str, Any] = {}
        if self.development:
            with self._autocast():
                scores["development_loss"] = perplexity_loss(self.model, [self._to_device(b) for b in self.development])
        scores.update(self._translation_scores())
        self.model.train()
        self._log(scores)

    def _translation_scores(self) -> dict[str, Any]:
        """Mean BLEU and chrF over the directions, and each direction's, of greedy translations."""
        pairs = development_pairs(self.recipe)
        if not pairs:
            return {}
        backend = TorchBackend(self.model, min(64, sum(map(len, pairs.values()))))
        scores = score_directions(backend, self._tokenizer, self.config, pairs, DecodingOptions())
        return {
            "bleu": sum(score.bleu for score in scores.values()) / len(scores),
            "chrf": sum(score.chrf for score in scores.values()) / len(scores),
            "directions": {"-".join(way): [round(one.bleu, 2), round(one.chrf, 2)] for way, one in scores.items()},
        }

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
        """Rank 0's clock, so that all ranks see the same share of the budget and stop at the same step."""
        if self.ranks == 1:
            return seconds
        shared = torch.tensor(seconds, dtype=torch.float64, device=self.device)
        distributed.broadcast(shared, 0)
        return float(shared)

    def _loss_function(self) -> Callable[[Batch], torch.Tensor]:
        smoothing = self.recipe.train.label_smoothing
        if self.device.type == "cuda":
            self.model.encode = torch.compile(self.model.encode, dynamic=True)  # type: ignore[method-assign]
            self.model.decode = torch.compile(self.model.decode, dynamic=True)  # type: ignore[method-assign]
        return lambda batch: batch_loss(self.model, batch, smoothing)

    def _autocast(self) -> AbstractContextManager[Any]:
        return autocast(self.device)

    def _to_device(self, batch: Batch) -> Batch:
        if self.device.type == "cpu":
            return batch
        source, target = (x.pin_memory().to(self.device, non_blocking=True) for x in (batch.source, batch.target))
        return Batch(source, target, batch.tokens)

    def _development(self, path: Path, specials: Specials) -> list[Batch]:
        """A fixed sample of the development pairs, both directions."""
        stream = Batches(Shard.load(path), self.recipe, specials, None, 4200).stream()
        batches: list[Batch] = []
        while sum(len(batch.source) for batch in batches) < 2 * self.recipe.train.validate_sentences:
            epoch, _, batch = next(stream)
            if epoch > 0:
                break
            batches.append(batch)
        return batches

    _rate = 0.0


def ranks() -> tuple[int, int]:
    """This process's rank and the number of ranks, as torchrun tells them."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def training_device() -> torch.device:
    """This rank's GPU, or the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 products where the device multiplies them faster than float32."""
    if device.type == "cuda" or torch.cpu._is_avx512_bf16_supported():
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def development_pairs(recipe: Recipe) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """The first `validate_sentences` (source text, reference) pairs of every direction of the development files."""
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for file in recipe.data.development:
        for pair in islice(read_pairs(Path(file)), recipe.train.validate_sentences):
            pairs.setdefault(("en", pair.language), []).append((pair.english, pair.other))
            pairs.setdefault((pair.language, "en"), []).append((pair.other, pair.english))
    return pairs


def checkpoints(folder: Path) -> list[Path]:
    """Weights saved in `folder`, oldest first."""
    return sorted(folder.glob("step-*.safetensors"))


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
