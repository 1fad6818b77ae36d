"""The CUDA backend: decode steps of fixed shape, replayed from CUDA graphs.

- A step always computes all R slots, also inactive ones. Products of other shapes may sum in another order; with one
  shape a row's result does not depend on the other rows.
- Lengths are on the device and mask unused positions, so one graph serves all mixtures of lengths. With the Triton
  kernels (`fused`) each row reads only its own positions. Without them a step reads the first P positions of all rows,
  P the smallest bucket that is large enough.
- Next tokens are selected on the device. Several greedy steps run without returning to the host.
- New sources are encoded on a second CUDA stream while steps run.

Without capture (on a CPU) the same steps run operation by operation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.backends.cuda.fused_step import FusedStep, SlotKernels
from model.backends.cuda.static_cache import StaticCache
from model.backends.cuda.step_graphs import Bucket, StepGraphs, StepTokens
from model.backends.torch.backend import TorchBackend
from model.backends.torch.inputs import pad_ids
from model.search.base import MaskedHeads, StepOutput
from model.transformer import HeadGates, Transformer

_MIN_POSITIONS = 32
_MIN_ENCODED = 2048
"""Smallest number of padded tokens of a batch that is encoded on a GPU."""
_CANDIDATES = (1, 8, 16, 64)
_WARM_UP = 2
_CHUNK = 4
"""Greedy steps that are captured together in one graph."""
_CAPTURE = threading.Lock()
"""PyTorch captures one graph at a time in a process, and another model may be loading in another thread."""


class PendingSteps:
    """Steps that are running on the device. `outputs` waits for them and must be called before the next step.

    `on_end` is called when they have ended.
    """

    def __init__(
        self,
        chosen: list[StepTokens],
        slots: Sequence[int],
        candidates: int,
        forced: Sequence[int],
        on_end: Callable[[], None],
    ) -> None:
        self._slots, self._candidates, self._forced, self._on_end = list(slots), candidates, forced, on_end
        results = (torch.stack([getattr(tokens, name) for tokens in chosen]) for name in ("ids", "scores", "forced"))
        self._results = [_to_host(result) for result in results]
        self._done: Any = None
        if chosen[0].ids.is_cuda:
            self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._done.record()

    def outputs(self) -> list[StepOutput]:
        """Returns the output of each step."""
        if self._done is not None:
            self._done.synchronize()
        self._on_end()
        ids, scores, wanted = (result.numpy()[:, self._slots] for result in self._results)
        ids, scores = ids[:, :, : self._candidates], scores[:, :, : self._candidates]
        for row, token in enumerate(self._forced):
            if token >= 0:
                ids[0, row], scores[0, row] = np.roll(ids[0, row], 1), np.roll(scores[0, row], 1)
                ids[0, row, 0], scores[0, row, 0] = token, wanted[0, row]
        return [StepOutput(*step) for step in zip(ids, scores, strict=True)]


class GraphedBackend(TorchBackend):
    """A TorchBackend with steps of fixed shape: replayed from CUDA graphs if `capture`, computed with `kernels` if
    given.

    `captured` counts the steps that were replayed. Raises ValueError for a model that the kernels cannot run.
    """

    cache: StaticCache

    def __init__(
        self, transformer: Transformer, slots: int, *, capture: bool, kernels: SlotKernels | None = None
    ) -> None:
        super().__init__(transformer, slots)
        parameter = next(transformer.parameters())
        self.cache = StaticCache(transformer.config, slots, parameter.dtype, self.device)
        self.captured = 0
        self._fused = None if kernels is None else FusedStep(self.transformer, self.cache, kernels)
        self._graphs = StepGraphs(capture)
        self._tokens, self._forced = torch.zeros(2, slots, dtype=torch.long, device=self.device)
        self._staging = torch.zeros(3, slots, dtype=torch.long, pin_memory=self.device.type == "cuda")
        self._prefill_stream: Any = None
        if self.device.type == "cuda":
            self._prefill_stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self._before_steps: Any = None
        """An event recorded before the running steps; None if there are none."""

    @property
    def fused(self) -> bool:
        """True if steps use the Triton kernels, False if they use PyTorch operations with masks."""
        return self._fused is not None

    @torch.inference_mode()
    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int], masked_heads: Sequence[MaskedHeads] = ()
    ) -> None:
        """Encodes the sources as one batch and writes their cross-attention keys and values. Between `step_async` and
        `outputs` this runs beside the steps, in which `slots` take no part."""
        self._room(max(len(source) for source in sources))
        with self._stream():
            if any(masked_heads) or self.device.type == "cpu":
                super().prefill(sources, slots, masked_heads)
                return
            # Small products sum in another order than large ones: padding rows make every batch a large one.
            width = max(len(source) for source in sources)
            pad = self.transformer.config.pad_id
            filling = [[pad]] * max(0, -(-_MIN_ENCODED // width) - len(sources))
            ids, mask = pad_ids([*sources, *filling], pad, self.device)
            for slot in slots:
                self._set_mask(slot, ())
            memory = self.transformer.encode(ids, mask)
            self.transformer.write_cross(memory, [len(source) for source in sources], self.cache, list(slots))

    def step(self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]) -> StepOutput:
        """Advances each row by its token. Returns the `candidates` most probable next tokens of each row."""
        return self.step_async(slots, tokens, candidates, forced).outputs()[0]

    @torch.inference_mode()
    def step_async(
        self,
        slots: Sequence[int],
        tokens: Sequence[int],
        candidates: int,
        forced: Sequence[int],
        steps: int = 1,
        prefill_length: int = 0,
    ) -> PendingSteps:
        """Starts one step, or `steps` greedy ones, and returns at once. Sources of up to `prefill_length` tokens may be
        prefilled into other slots before the outputs are read."""
        self._room(prefill_length)
        before: Any = None
        if self._prefill_stream is not None:
            # Sources were encoded during the last steps.
            torch.cuda.current_stream(self.device).wait_stream(self._prefill_stream)
            before = torch.cuda.Event()  # type: ignore[no-untyped-call]
            before.record()
        chosen = self._run(slots, tokens, candidates, forced, steps)
        self._before_steps = before
        return PendingSteps(chosen, slots, candidates, forced, self._steps_ended)

    def _steps_ended(self) -> None:
        self._before_steps = None

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _run(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int], steps: int
    ) -> list[StepTokens]:
        # Rows that pause write to their next position too.
        longest = max(max(self.cache.lengths[slot] for slot in slots) + steps, max(self.cache.lengths) + 1)
        source = max(self.cache.source_lengths[slot] for slot in slots)
        self._room(max(longest, source))
        positions = _MIN_POSITIONS
        while positions < max(longest, source):
            positions *= 2
        vocabulary = self.transformer.config.vocab_size
        bucket = Bucket(
            rows=self.slots,
            positions=min(positions, self.cache.room) if self._fused is None else self.cache.room,
            candidates=min(vocabulary, next((c for c in _CANDIDATES if c >= candidates), candidates)),
        )
        gates = self._gates(range(bucket.rows))
        self.cache.view(bucket.rows, bucket.positions)
        chunks = [replace(bucket, steps=_CHUNK)] * (steps // _CHUNK) + [bucket] * (steps % _CHUNK)
        for chunk in dict.fromkeys(chunks):
            if gates is None and self._graphs.due(chunk):
                self._capture(chunk)
        self._send(slots, tokens, forced)
        results: list[StepTokens] = []
        for number, chunk in enumerate(chunks, 1):
            results += self._once(chunk, gates, last=number == len(chunks))
        for slot in slots:
            self.cache.lengths[slot] += steps
        return results

    def _once(self, bucket: Bucket, gates: HeadGates | None, *, last: bool) -> list[StepTokens]:
        if gates is not None or not self._graphs.can_use(bucket):
            return [self._compute(bucket, gates) for _ in range(bucket.steps)]
        self.captured += bucket.steps
        chosen = self._graphs.replay(bucket)
        if last:
            return chosen
        return [StepTokens(tokens.ids.clone(), tokens.scores.clone(), tokens.forced.clone()) for tokens in chosen]

    def _compute(self, bucket: Bucket, gates: HeadGates | None) -> StepTokens:
        """Computes one step. No shape depends on the data, and nothing is copied to the host."""
        tokens, forced = self._tokens[: bucket.rows], self._forced[: bucket.rows]
        if self._fused is None or gates is not None:
            logits = self.transformer.decode_step(tokens, self.cache, [], gates)  # (R, V)
        else:
            logits = self._fused.logits(tokens)
            if bucket.candidates == 1:
                ids, best, wanted = self._fused.choose(logits, forced)
                tokens.copy_(ids)
                return StepTokens(ids[:, None], best[:, None], wanted)
        scores = torch.log_softmax(logits.float(), dim=-1)
        if bucket.candidates == 1:
            best, ids = scores.max(dim=-1, keepdim=True)
        else:
            best, ids = scores.topk(bucket.candidates, dim=-1)
        tokens.copy_(ids[:, 0])
        return StepTokens(ids, best, scores.gather(1, forced[:, None])[:, 0])

    def _capture(self, bucket: Bucket) -> None:
        """Captures the steps as a graph. All slots are inactive meanwhile, so no length changes."""
        self.cache.active.zero_()
        warm_up = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        warm_up.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm_up):
            for _ in range(_WARM_UP):
                self._compute(bucket, None)
        torch.cuda.current_stream(self.device).wait_stream(warm_up)
        graph = torch.cuda.CUDAGraph()
        with _CAPTURE, torch.cuda.graph(graph, pool=self._graphs.pool, capture_error_mode="thread_local"):
            chosen = [self._compute(bucket, None) for _ in range(bucket.steps)]
        self._graphs.record(bucket, graph, chosen)

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
        """Makes room for `positions`. The cache moves only after the second stream has written to it."""
        if positions > self.cache.room and self._prefill_stream is not None:
            torch.cuda.current_stream(self.device).wait_stream(self._prefill_stream)
        if self.cache.ensure(positions):
            self._graphs.clear()

    def _stream(self) -> AbstractContextManager[Any]:
        """Returns the stream for encoding: during running steps the second one, after all work queued before the
        steps."""
        if self._before_steps is None:
            if self._prefill_stream is not None:
                torch.cuda.current_stream(self.device).wait_stream(self._prefill_stream)
            return nullcontext()
        self._prefill_stream.wait_event(self._before_steps)
        return torch.cuda.stream(self._prefill_stream)


def _to_host(tensor: Tensor) -> Tensor:
    """Returns a copy in host memory. On a GPU the copy is queued; a later event marks its end."""
    if not tensor.is_cuda:
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
