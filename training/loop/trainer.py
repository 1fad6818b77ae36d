"""The training loop: resumes from the newest checkpoint, logs lines of JSON, writes checkpoints and
validates."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, distributed, nn
from tqdm import tqdm

from model.transformer import Transformer
from training.data.batches import Batch
from training.loop import checkpoint
from training.loop.checkpoint import Progress
from training.loop.hardware import (
    autocast,
    compile_layers,
    gradient_scaler,
    label_loss_on,
    rank_and_world_size,
    training_device,
)
from training.loop.loss import LabelLoss, batch_loss
from training.loop.optimizers import average_gradients, build_optimizers, set_rates
from training.loop.qk_clip import QKClip
from training.recipe import TrainRecipe

_LOG_STEPS = 20
_CPU_PREFETCH, _GPU_PREFETCH = 4, 48
"""Batches that are built in advance. A GPU needs more, so that it does not wait while an epoch is
drawn."""
Stream = Iterator[tuple[int, int, Batch]]
"""(epoch, index of the batch in the epoch, batch)."""


class BatchStream(Protocol):
    """Endless batches, the same for the same place."""

    def stream(self, epoch: int = 0, skip: int = 0) -> Stream:
        """Yields batches from batch `skip` of `epoch` on."""


_BAR = "{percentage:5.1f}% |{bar}| {elapsed} < {remaining}{postfix}"


@dataclass(slots=True)
class _Window:
    """Sums since the last line of the log. The loss stays on the device until the line is
    written."""

    loss: Tensor | float = 0.0
    tokens: int = 0
    largest_logit: float | None = None
    began: float = field(default_factory=time.monotonic)


class Trainer:
    """Trains `model` on the endless `batches`, with log and checkpoints in `folder`. Resumes from a
    checkpoint there. `validate` returns the log fields of a validation on a device."""

    def __init__(
        self,
        recipe: TrainRecipe,
        folder: Path,
        model: Transformer,
        batches: BatchStream,
        validate: Callable[[torch.device], dict[str, Any]],
    ) -> None:
        self.recipe, self.folder = recipe, folder
        self.rank, self.ranks = rank_and_world_size()
        self.device = training_device()
        self._gpu = self.device.type == "cuda"
        self._scaler = gradient_scaler(self.device)
        self.model = model.to(self.device)
        self.optimizers = build_optimizers(self.model, recipe)
        self._clip = QKClip(self.model, recipe.logit_bound) if recipe.logit_bound else None
        self.batches, self._validate = batches, validate
        self.progress = (
            checkpoint.load(folder, self.model, self.optimizers, self.device) or Progress()
        )
        # The loop of a recurrence over positions would be compiled for each length.
        compiled = self._gpu and model.config.recurrence == "none"
        self._label_loss: LabelLoss = (
            compile_layers(self.model) if compiled else label_loss_on(self.device)
        )
        self._rate, self._stop_requested, self._stopping = 0.0, False, False
        self._window = _Window()

    def run(self, until: float = 1.0) -> bool:
        """Trains until the share `until` of the recipe's steps or minutes is used up, or until
        `stop`. Then returns False."""
        recipe, progress = self.recipe, self.progress
        saved = validated = before = progress.seconds
        began = time.monotonic()
        self.model.train()
        # Ranks exchange their clocks, and a GPU is waited for, only where the log is written too.
        clock_steps = _LOG_STEPS if self._gpu or self.ranks > 1 else 1
        bar = tqdm(
            total=1.0,
            initial=self._budget_used(),
            disable=self.rank > 0,
            mininterval=5.0,
            bar_format=_BAR,
        )
        with (
            bar,
            closing(
                _ahead(self._stream(), _GPU_PREFETCH if self._gpu else _CPU_PREFETCH)
            ) as stream,
        ):
            while self._budget_used() < until and not self._stopping:
                self._step(stream)
                if progress.step % clock_steps == 0:
                    progress.seconds = self._synchronised(before, began)
                if progress.step % _LOG_STEPS == 0:
                    bar.set_postfix_str(self._log_window(), refresh=False)
                bar.update(self._budget_used() - bar.n)
                if progress.seconds - saved >= 60 * recipe.checkpoint_minutes:
                    self.save()
                    saved = progress.seconds
                if progress.seconds - validated >= 60 * recipe.validate_minutes:
                    self.validate()
                    validated = progress.seconds
        self.save()
        if not self._stopping:
            self.validate()
        return not self._stopping

    def stop(self) -> None:
        """Makes `run` return soon with a checkpoint: after the current step, or when ranks exchange
        their clocks. A later run resumes the schedule there."""
        self._stop_requested = True
        self._stopping = self.ranks == 1

    def save(self) -> None:
        if self.rank == 0:
            checkpoint.save(
                self.folder, self.model, self.optimizers, self.progress, self.recipe.keep
            )

    def validate(self) -> None:
        if self.rank == 0:
            scores = self._validate(self.device)
            self.model.train()
            self._log(scores)

    def _stream(self) -> Stream:
        """Yields batches from the current progress on, in page-locked memory if a GPU reads
        them."""
        if self._gpu:
            # the device is set per thread, and this runs in the thread of `_ahead`
            torch.cuda.set_device(self.device)
        for epoch, index, batch in self.batches.stream(self.progress.epoch, self.progress.index):
            yield epoch, index, batch.pinned() if self._gpu else batch

    def _step(self, stream: Stream) -> None:
        """Runs one optimiser step. On a GPU it is only queued."""
        recipe, progress = self.recipe, self.progress
        self._rate = set_rates(
            self.optimizers,
            recipe,
            self.model.config.d_model,
            progress.step + 1,
            self._budget_used(),
        )
        progress.epoch, progress.index, batch = next(stream)
        progress.index += self.ranks
        smoothing, hidden_ends = recipe.label_smoothing, recipe.hidden_ends
        with autocast(self.device):
            loss = batch_loss(
                self.model,
                batch.to(self.device),
                smoothing,
                self._label_loss,
                hidden_ends=hidden_ends,
            )
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self._window.loss = self._window.loss + loss.detach() * batch.tokens
        self._window.tokens += batch.tokens
        progress.tokens += batch.tokens * self.ranks
        average_gradients(self.model.parameters(), self.ranks)
        for optimizer in self.optimizers:
            self._scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            self._scaler.step(optimizer)
            optimizer.zero_grad()
        self._scaler.update()
        progress.step += 1
        if self._clip is not None and progress.step % recipe.logit_steps == 0:
            self._clip_logits(self._clip, batch)

    def _clip_logits(self, clip: QKClip, batch: Batch) -> None:
        if self.rank == 0:
            with nullcontext() if self._gpu else autocast(self.device):
                self._window.largest_logit = clip.clip(batch.to(self.device))
        if self.ranks > 1:
            for name, parameter in self.model.named_parameters():
                if ".query." in name or ".key." in name:
                    distributed.broadcast(parameter.data, 0)

    def _synchronised(self, before: float, began: float) -> float:
        """Waits for the device. Returns rank 0's seconds of training (`before` those of earlier
        runs) and adopts its stop flag, so that all ranks stop together."""
        if self._gpu:
            torch.cuda.current_stream(self.device).synchronize()
        seconds = before + time.monotonic() - began
        if self.ranks == 1:
            return seconds
        shared = torch.tensor(
            [seconds, float(self._stop_requested)], dtype=torch.float64, device=self.device
        )
        distributed.broadcast(shared, 0)
        seconds, stopping = shared.tolist()
        self._stopping = stopping > 0.0
        return float(seconds)

    def _budget_used(self) -> float:
        """Returns the used share of the budget: of steps or minutes, whichever is larger, at most
        1."""
        recipe = self.recipe
        share = self.progress.step / recipe.steps
        if recipe.minutes is not None:
            share = max(share, self.progress.seconds / (60 * recipe.minutes))
        return min(1.0, share)

    def _log_window(self) -> str:
        """Logs this rank's mean loss in nats and the target tokens per second of all ranks since
        the last line. Returns both as text."""
        window, self._window = self._window, _Window()
        # waits for the device, so the time has all its work
        loss = float(window.loss) / max(1, window.tokens)
        seconds = time.monotonic() - window.began
        values: dict[str, Any] = {
            "loss": loss,
            "tokens_per_second": round(window.tokens * self.ranks / seconds),
        }
        if window.largest_logit is not None:
            values["largest_logit"] = round(window.largest_logit, 2)
        if self.rank == 0:
            self._log(values)
        return f"step {self.progress.step}, loss {loss:.3f}, {values['tokens_per_second']} tokens/s"

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


def _ahead(items: Stream, depth: int) -> Generator[tuple[int, int, Batch], None, None]:
    """Yields the endless `items`, computed up to `depth` ahead in a thread, whose exceptions are
    raised here."""
    pool = ThreadPoolExecutor(1, "batches")
    waiting = deque(pool.submit(next, items) for _ in range(depth))
    try:
        while True:
            yield waiting.popleft().result()
            waiting.append(pool.submit(next, items))
    finally:
        pool.shutdown(cancel_futures=True)
