"""The CUDA backend: decode steps of fixed shape, replayed from CUDA graphs.

- A step always computes all R slots, also inactive ones. Products of other shapes may sum in another order; with one
  shape a row's result does not depend on the other rows.
- Lengths are on the device and mask unused positions, so one graph serves all mixtures of lengths. With the Triton
  kernels (`fused`) each row reads only its own positions. Without them a step reads the first P positions of all rows,
  P the smallest bucket that is large enough.
- Next tokens are selected on the device. Several greedy steps run without returning to the host.

A graph is captured at the third use of its shape and replayed from then on. Without capture (on a CPU) the same steps run
operation by operation.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.backends.cuda.device_check import check_device
from model.backends.cuda.fused_step import FusedStep, SlotKernels
from model.backends.cuda.static_cache import StaticCache
from model.backends.torch.backend import TorchBackend
from model.backends.torch.inputs import pad_ids
from model.search.backend_interface import MaskedHeads, StepOutput
from model.transformer import HeadGates, Transformer

log = logging.getLogger(__name__)
CAPTURE_AFTER = 3
"""Uses of a shape before it is captured: a capture costs as much as many steps."""
_MIN_POSITIONS = 32
_MIN_ENCODED = 2048
"""Smallest number of padded tokens of a batch that is encoded on a GPU."""
_CANDIDATES = (1, 8, 16, 64)
_WARM_UP = 2
_CAPTURE = threading.Lock()
"""PyTorch captures one graph at a time in a process, and another model may be loading in another thread."""
_streams: dict[torch.device, torch.cuda.Stream] = {}
"""The stream of all captures of a device. PyTorch hands out the same 32 streams in turn: a new one for each capture may be
one that copies or encodes."""

_Shape = tuple[int, int]
"""Of a step of all slots: positions, and candidates of each row."""
_StepTokens = tuple[Tensor, Tensor, Tensor]
"""Of a step on the device: ids and log-probabilities (R, C), log-probabilities of the forced tokens (R,)."""


class GraphedBackend(TorchBackend):
    """A TorchBackend with steps of fixed shape: replayed from CUDA graphs if `capture`, computed with `kernels` if
    given.

    `captured` counts the steps that were replayed.
    """

    cache: StaticCache

    def __init__(
        self, transformer: Transformer, slots: int, *, capture: bool, kernels: SlotKernels | None = None
    ) -> None:
        super().__init__(transformer, slots)
        parameter = next(transformer.parameters())
        self.cache = StaticCache(transformer.config, slots, parameter.dtype, self.device)
        self.end = transformer.config.eos_id
        self.captured = 0
        self._fused = None if kernels is None else FusedStep(self.transformer, self.cache, kernels)
        self._captures = capture
        self._graphs: dict[_Shape, tuple[torch.cuda.CUDAGraph, _StepTokens]] = {}
        self._uses: Counter[_Shape] = Counter()
        self._uncaptured: set[_Shape] = set()
        """Shapes whose capture failed."""
        self._pool: Any = None
        """The memory pool that all graphs share: they never run at the same time."""
        self._tokens, self._forced = torch.zeros(2, slots, dtype=torch.long, device=self.device)
        self._staging = torch.zeros(3, slots, dtype=torch.long, pin_memory=self.device.type == "cuda")

    @torch.inference_mode()
    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int], masked_heads: Sequence[MaskedHeads] = ()
    ) -> None:
        """Encodes the sources as one batch and writes their cross-attention keys and values."""
        width = max(len(source) for source in sources)
        self._room(width)
        if any(masked_heads) or self.device.type == "cpu":
            super().prefill(sources, slots, masked_heads)
            return
        # Small products sum in another order than large ones: padding rows make every batch a large one.
        pad = self.transformer.config.pad_id
        filling = [[pad]] * max(0, -(-_MIN_ENCODED // width) - len(sources))
        ids, mask = pad_ids([*sources, *filling], pad, self.device)
        for slot in slots:
            self._set_mask(slot, ())
        memory = self.transformer.encode(ids, mask)
        self.transformer.write_cross(memory, [len(source) for source in sources], self.cache, list(slots))

    def step(self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]) -> StepOutput:
        """Advances each row by its token. Returns the `candidates` most probable next tokens of each row."""
        return self._run(slots, tokens, candidates, forced, 1)[0]

    def multi_step(
        self, slots: Sequence[int], tokens: Sequence[int], steps: int, forbidden: Sequence[int] = ()
    ) -> list[StepOutput]:
        """Runs `steps` greedy steps, each row reading its own last token. Where tokens are `forbidden`, the host selects
        them after every step."""
        free = [-1] * len(slots)
        if not forbidden:
            return self._run(slots, tokens, 1, free, steps)
        outputs: list[StepOutput] = []
        for _ in range(steps):
            outputs.append(self.step(slots, tokens, 1 + len(forbidden), free))
            tokens = [next(token for token in row if token not in forbidden) for row in outputs[-1].ids.tolist()]
        return outputs

    # -- parts ---------------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _run(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int], steps: int
    ) -> list[StepOutput]:
        # Rows that pause write to their next position too.
        longest = max(max(self.cache.lengths[slot] for slot in slots) + steps, max(self.cache.lengths) + 1)
        longest = max(longest, *(self.cache.source_lengths[slot] for slot in slots))
        self._room(longest)
        positions = _MIN_POSITIONS
        while positions < longest:
            positions *= 2
        vocabulary = self.transformer.config.vocab_size
        shape = (
            min(positions, self.cache.room) if self._fused is None else self.cache.room,
            min(vocabulary, next((c for c in _CANDIDATES if c >= candidates), candidates)),
        )
        gates = self._gates(range(self.slots))
        self.cache.view(shape[0])
        self._uses[shape] += gates is None
        known = shape in self._graphs or shape in self._uncaptured
        if gates is None and self._captures and not known and self._uses[shape] >= CAPTURE_AFTER:
            self._try_to_capture(shape)
        self._send(slots, tokens, forced)
        results = [self._once(shape, gates) for _ in range(steps)]
        for slot in slots:
            self.cache.lengths[slot] += steps
        ids, scores, wanted = (torch.stack(parts).cpu().numpy()[:, list(slots)] for parts in zip(*results, strict=True))
        ids, scores = ids[:, :, :candidates], scores[:, :, :candidates]
        for row, token in enumerate(forced):
            if token >= 0:
                ids[0, row], scores[0, row] = np.roll(ids[0, row], 1), np.roll(scores[0, row], 1)
                ids[0, row, 0], scores[0, row, 0] = token, wanted[0, row]
        return [StepOutput(*step) for step in zip(ids, scores, strict=True)]

    def _once(self, shape: _Shape, gates: HeadGates | None) -> _StepTokens:
        if gates is not None or shape not in self._graphs:
            return self._compute(shape, gates)
        self.captured += 1
        graph, (ids, scores, forced) = self._graphs[shape]
        graph.replay()
        return ids.clone(), scores.clone(), forced.clone()  # the next replay overwrites them

    def _compute(self, shape: _Shape, gates: HeadGates | None) -> _StepTokens:
        """Computes one step. No shape depends on the data, and nothing is copied to the host."""
        tokens, candidates = self._tokens, shape[1]
        if self._fused is None or gates is not None:
            logits = self.transformer.decode_step(tokens, self.cache, [], gates)  # (R, V)
        else:
            logits = self._fused.logits(tokens)
            if candidates == 1:
                ids, best, wanted = self._fused.choose(logits, self._forced)
                tokens.copy_(ids)
                return ids[:, None], best[:, None], wanted
        scores = torch.log_softmax(logits.float(), dim=-1)
        if candidates == 1:
            best, ids = scores.max(dim=-1, keepdim=True)
        else:
            best, ids = scores.topk(candidates, dim=-1)
        tokens.copy_(ids[:, 0])
        return ids, best, scores.gather(1, self._forced[:, None])[:, 0]

    def _try_to_capture(self, shape: _Shape) -> None:
        """Captures a step. A shape whose capture fails is computed operation by operation from then on. Raises the error of
        a device that is broken."""
        try:
            with _CAPTURE:
                self._capture(shape)
        except Exception as error:  # noqa: BLE001  a capture may raise anything
            self._uncaptured.add(shape)
            log.warning("steps of shape %s are not captured: %s: %s", shape, type(error).__name__, str(error)[:200])
            check_device(self.device)

    def _capture(self, shape: _Shape) -> None:
        """Captures a step as a graph. All slots are inactive meanwhile, so no length changes."""
        self.cache.active.zero_()
        stream = _streams.setdefault(self.device, torch.cuda.Stream(self.device))  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._compute(shape, None)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
            result = self._compute(shape, None)
        self._graphs[shape] = graph, result

    def _send(self, slots: Sequence[int], tokens: Sequence[int], forced: Sequence[int]) -> None:
        """Copies tokens, forced tokens and active slots to the device. The previous copy has ended: its step was
        read."""
        self._staging.zero_()
        index = torch.tensor(slots)
        self._staging[0, index] = torch.tensor(tokens)
        self._staging[1, index] = torch.tensor(forced).clamp(min=0)
        self._staging[2, index] = 1
        sent = self._staging.to(self.device, non_blocking=True)
        self._tokens.copy_(sent[0])
        self._forced.copy_(sent[1])
        self.cache.active.copy_(sent[2])

    def _room(self, positions: int) -> None:
        """Makes room for `positions`. Before the cache moves, all graphs are discarded, which frees memory: they hold
        addresses."""
        if positions > self.cache.room:
            self._graphs.clear()
            self._pool = None  # PyTorch may refuse a pool whose last graph is gone
            self.cache.ensure(positions)
