"""Figures of the training steps between two lines of the log."""

from __future__ import annotations

import time
from typing import Any

from torch import Tensor

from model.config import ModelConfig
from model.training.data.batch import Batch
from model.training.loop.hardware import training_flops


class LogWindow:
    """Sums losses and tokens of this rank since the last line of the log. Losses stay on the device until `values`."""

    def __init__(self) -> None:
        self._loss: Tensor | float = 0.0
        self._tokens = self._source_tokens = 0
        self.largest_logit: float | None = None
        self._began = time.monotonic()

    def add(self, loss: Tensor, batch: Batch) -> None:
        """Adds a batch and its mean loss per target token."""
        self._loss = self._loss + loss * batch.tokens
        self._tokens += batch.tokens
        self._source_tokens += batch.source_tokens

    def values(self, config: ModelConfig, peak: float | None, ranks: int = 1) -> dict[str, Any]:
        """Returns this rank's mean loss in nats and the target tokens per second of all `ranks`.

        The batches of a step have similar sizes, so every rank counts as much as this one. With `peak`, the rate of one
        device in FLOP/s, the values also have the share of it that this rank's device reached.
        """
        loss = float(self._loss) / max(1, self._tokens)  # waits for the device, so the time below includes all its work
        seconds = time.monotonic() - self._began
        values: dict[str, Any] = {"loss": loss, "tokens_per_second": round(self._tokens * ranks / seconds)}
        if self.largest_logit is not None:
            values["largest_logit"] = round(self.largest_logit, 2)
        if peak is not None:
            flops = training_flops(config, self._source_tokens, self._tokens)
            values["share_of_peak"] = round(flops / seconds / peak, 4)
        return values
