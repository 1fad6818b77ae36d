"""One batch of token ids for training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

IGNORED = -100
"""Label of the added positions; the loss ignores it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One padded batch of token ids. B batch, S source length, T target length, N labels.

    `source` (B, S) has the language tag and the end; `target` (B, T) is the input of the decoder, with the start.
    `label_positions` (N,) are the flat positions of `target` that have a label, and `labels` (N,) are those labels, so
    that no padding enters the output projection. `tokens` is the number of labels that are not IGNORED, `source_tokens`
    the number of source tokens that are not padding.
    """

    source: Tensor
    target: Tensor
    label_positions: Tensor
    labels: Tensor
    tokens: int
    source_tokens: int

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns source, target, label positions and labels."""
        return self.source, self.target, self.label_positions, self.labels

    def pinned(self) -> Batch:
        """Returns a copy in page-locked memory, so that `to` does not block the host."""
        source, target, positions, labels = (tensor.pin_memory() for tensor in self.tensors())
        return Batch(source, target, positions, labels, self.tokens, self.source_tokens)

    def to(self, device: torch.device) -> Batch:
        """Returns a copy on `device`. The copy is asynchronous if the batch is pinned."""
        source, target, positions, labels = (tensor.to(device, non_blocking=True) for tensor in self.tensors())
        return Batch(source, target, positions, labels, self.tokens, self.source_tokens)
