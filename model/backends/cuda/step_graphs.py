"""CUDA graphs of decode steps: one graph per bucket of shapes, captured after a few uses and replayed from then on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CAPTURE_AFTER = 3
"""A bucket is captured at its third use: a capture costs as much as many steps."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Shape of a captured graph: slots, positions, candidates per row, and number of consecutive steps."""

    rows: int
    positions: int
    candidates: int
    steps: int = 1


@dataclass(frozen=True, slots=True)
class StepTokens:
    """Result of a step on the device: ids and log-probabilities (R, C), log-probabilities of the forced tokens (R,)."""

    ids: Tensor
    scores: Tensor
    forced: Tensor


class StepGraphs:
    """Captured graphs by bucket. They share a memory pool: they never run at the same time, and the outputs of a replay
    are read before the next replay."""

    def __init__(self, capture: bool) -> None:
        self._capture = capture
        self._graphs: dict[Bucket, tuple[torch.cuda.CUDAGraph, list[StepTokens]]] = {}
        self._uses: dict[Bucket, int] = {}
        self._pool: Any = None

    def can_use(self, bucket: Bucket) -> bool:
        """Returns True if the bucket has been captured."""
        return bucket in self._graphs

    def due(self, bucket: Bucket) -> bool:
        """Counts a use of the bucket. Returns True if it should be captured now."""
        self._uses[bucket] = self._uses.get(bucket, 0) + 1
        return self._capture and bucket not in self._graphs and self._uses[bucket] >= CAPTURE_AFTER

    def replay(self, bucket: Bucket) -> list[StepTokens]:
        """Runs the captured steps. The outputs are overwritten by the next replay."""
        graph, tokens = self._graphs[bucket]
        graph.replay()
        return tokens

    def record(self, bucket: Bucket, graph: torch.cuda.CUDAGraph, tokens: list[StepTokens]) -> None:
        """Stores a captured graph and its outputs."""
        self._graphs[bucket] = (graph, tokens)

    def clear(self) -> None:
        """Discards all graphs. Required after the cache moved: graphs hold addresses."""
        self._graphs.clear()
        self._pool = None  # PyTorch may refuse a pool whose last graph is gone

    @property
    def pool(self) -> Any:
        """Handle of the memory pool that all graphs share."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        return self._pool
