"""One batch of token ids for training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """One padded batch of token ids. B batch, S source length, T target length.

    `source` (B, S) has the language tag and the end; `target` (B, T + 1) has the start and the end: the decoder reads all
    but its last column, and all but its first are the labels. `tokens` is the number of labels that are not padding.
    """

    source: Tensor
    target: Tensor
    tokens: int

    def pinned(self) -> Batch:
        """Returns a copy in page-locked memory, so that `to` does not block the host."""
        return Batch(self.source.pin_memory(), self.target.pin_memory(), self.tokens)

    def to(self, device: torch.device) -> Batch:
        """Returns a copy on `device`. The copy is asynchronous if the batch is pinned."""
        source, target = (tensor.to(device, non_blocking=True) for tensor in (self.source, self.target))
        return Batch(source, target, self.tokens)
