"""Decode steps with fixed shapes: one CUDA graph per bucket, behind can_use and replay.

A step runs over all R slots, those that take part and those that do not: a product of other rows may sum in another
order, and a translation does not depend on its neighbours. Lengths live on the device and mask what is not there, so one
graph serves every mixture of lengths. With kernels (`fused`) each row reads its own length only; without, a step sees the
first P positions of all, P the smallest bucket that holds everybody. Next tokens are chosen on the device and may be fed
back there, so that several greedy steps run before the host looks (`multi_step`). `step_async` does not even wait for them:
newcomers are encoded on a stream of their own meanwhile. Without capture, as on a CPU, the same steps run kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.backends.cuda.fused_step import FusedStep, SlotKernels
from model.backends.cuda.static_cache import StaticCache
from model.backends.torch.backend import TorchBackend
from model.backends.torch.inputs import head_gates, pad_ids
from model.search.base import MaskedHeads, StepOutput
from model.transformer import HeadGates, Transformer

_LEAST_POSITIONS = 32
_LEAST_ENCODED = 2048
"""Padded tokens that a batch has at least when it is encoded on a GPU."""
_CANDIDATES = (1, 8, 16, 64)
_SEEN = 3
"""A bucket is captured when it is wanted the _SEEN-th time: capturing costs as much as many steps."""
_WARM_UP = 2
_CHUNK = 4
"""Greedy steps that are captured together: one launch, and nothing to copy between them."""
_EXACT, _ROUNDED = 1e-2, 0.2
"""Log-probabilities of a replayed step may differ by so much from plain torch: in float32, in half precision."""


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Shape of what is captured: slots, positions, candidates per row, and how many steps follow one another."""

    rows: int
    positions: int
    candidates: int
    steps: int = 1


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A step's result on the device: ids and log-probabilities (R, C), log-probabilities of forced tokens (R,)."""

    ids: Tensor
    scores: Tensor
    wanted: Tensor


class StepGraphs:
    """The captured steps. All share one memory pool: they never run at the same time, and what a replay leaves in its
    outputs is read before the next one."""

    def __init__(self, capture: bool) -> None:
        self._capture = capture
        self._graphs: dict[_Bucket, tuple[torch.cuda.CUDAGraph, list[_Chosen]]] = {}
        self._wanted: dict[_Bucket, int] = {}
        self._pool: Any = None

    def can_use(self, bucket: _Bucket) -> bool:
        return bucket in self._graphs

    def due(self, bucket: _Bucket) -> bool:
        """Count a wish for this bucket; True when it should be captured now."""
        self._wanted[bucket] = self._wanted.get(bucket, 0) + 1
        return self._capture and bucket not in self._graphs and self._wanted[bucket] >= _SEEN

    def replay(self, bucket: _Bucket) -> list[_Chosen]:
        graph, chosen = self._graphs[bucket]
        graph.replay()
        return chosen

    def record(self, bucket: _Bucket, graph: torch.cuda.CUDAGraph, chosen: list[_Chosen]) -> None:
        self._graphs[bucket] = (graph, chosen)

    def clear(self) -> None:
        """The storage moved: nothing captured may run again."""
        self._graphs.clear()

    @property
    def pool(self) -> Any:
        """Memory that all graphs share, as torch names it."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        return self._pool


class PendingSteps:
    """Steps that are under way. `outputs` waits for them; call it before the backend is asked for another step. `landed` is
    called then."""

    def __init__(
        self, chosen: list[_Chosen], slots: Sequence[int], candidates: int, forced: Sequence[int],
        landed: Callable[[], None],
    ) -> None:
        self._slots, self._candidates, self._forced, self._landed = list(slots), candidates, forced, landed
        results = (torch.stack([getattr(one, name) for one in chosen]) for name in ("ids", "scores", "wanted"))
        self._results = [_to_host(result) for result in results]
        self._done: Any = None
        if chosen[0].ids.is_cuda:
            self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._done.record()

    def outputs(self) -> list[StepOutput]:
        """What each step brought, row by row."""
        if self._done is not None:
            self._done.synchronize()
        self._landed()
        ids, scores, wanted = (result.numpy()[:, self._slots] for result in self._results)
        ids, scores = ids[:, :, : self._candidates], scores[:, :, : self._candidates]
        for row, token in enumerate(self._forced):
            if token >= 0:
                ids[0, row], scores[0, row] = np.roll(ids[0, row], 1), np.roll(scores[0, row], 1)
                ids[0, row, 0], scores[0, row, 0] = token, wanted[0, row]
        return [StepOutput(*step) for step in zip(ids, scores, strict=True)]


class GraphedBackend(TorchBackend):
    """A TorchBackend whose steps have fixed shapes, replayed from CUDA graphs where `capture` allows it, and made of
    `kernels` if they are given. `captured` counts the steps that were replayed; `end` ends what `multi_step` generates. Raises
    ValueError for a model that the kernels cannot run.
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
        self._graphs = StepGraphs(capture)
        self._tokens, self._forced = torch.zeros(2, slots, dtype=torch.long, device=self.device)
        self._staging = torch.zeros(3, slots, dtype=torch.long, pin_memory=self.device.type == "cuda")
        self._beside: Any = None
        if self.device.type == "cuda":
            self._beside = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self._before: Any = None
        """An event before the steps under way, None where there are none."""

    @property
    def fused(self) -> bool:
        """Whether steps are made of kernels, else of torch's operations with masks."""
        return self._fused is not None

    @torch.inference_mode()
    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int], masked_heads: Sequence[MaskedHeads] = ()
    ) -> None:
        """Encode the sources as one batch and write their cross-attention keys and values. Between `step_async` and `outputs`
        this runs beside the steps, in which `slots` take no part."""
        self._room(max(len(source) for source in sources))
        with self._stream():
            if any(masked_heads) or self.device.type == "cpu":
                super().prefill(sources, slots, masked_heads)
                return
            # Small products sum in another order than large ones: rows of nothing make every batch a large one.
            width = max(len(source) for source in sources)
            filling = [[self.end]] * max(0, -(-_LEAST_ENCODED // width) - len(sources))
            ids, mask = pad_ids([*sources, *filling], self.transformer.config.pad_id, self.device)
            for slot in slots:
                self._set_mask(slot, ())
            memory = self.transformer.encode(ids, mask)
            self.transformer.write_cross(memory, [len(source) for source in sources], self.cache, list(slots))

    def step(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]
    ) -> StepOutput:
        """One token for each row; the `candidates` likeliest next tokens of each."""
        return self.step_async(slots, tokens, candidates, forced).outputs()[0]

    def multi_step(self, slots: Sequence[int], tokens: Sequence[int], steps: int) -> list[StepOutput]:
        """`steps` greedy steps, each fed with the likeliest token of the one before; the host looks once, at the end."""
        return self.step_async(slots, tokens, 1, [-1] * len(slots), steps).outputs()

    @torch.inference_mode()
    def step_async(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int], steps: int = 1,
        prefill_length: int = 0,
    ) -> PendingSteps:
        """Starts one step, or `steps` greedy ones, and returns at once. Sources of up to `prefill_length` tokens may be
        prefilled into other slots before the outputs are read."""
        self._room(prefill_length)
        before: Any = None
        if self._beside is not None:
            torch.cuda.current_stream(self.device).wait_stream(self._beside)  # what was encoded beside the last steps
            before = torch.cuda.Event()  # type: ignore[no-untyped-call]
            before.record()
        chosen = self._run(slots, tokens, candidates, forced, steps)
        self._before = before
        return PendingSteps(chosen, slots, candidates, forced, self._land)

    def _land(self) -> None:
        self._before = None

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _run(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int], steps: int
    ) -> list[_Chosen]:
        longest = max(self.cache.lengths[slot] for slot in slots) + steps
        source = max(self.cache.source_lengths[slot] for slot in slots)
        self._room(max(longest, source))
        positions = _LEAST_POSITIONS
        while positions < max(longest, source):
            positions *= 2
        vocabulary = self.transformer.config.vocab_size
        bucket = _Bucket(
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
        results: list[_Chosen] = []
        for number, chunk in enumerate(chunks, 1):
            results += self._once(chunk, gates, last=number == len(chunks))
        for slot in slots:
            self.cache.lengths[slot] += steps
        return results

    def _once(self, bucket: _Bucket, gates: HeadGates | None, *, last: bool) -> list[_Chosen]:
        if gates is not None or not self._graphs.can_use(bucket):
            return [self._compute(bucket, gates) for _ in range(bucket.steps)]
        self.captured += bucket.steps
        chosen = self._graphs.replay(bucket)
        if last:
            return chosen
        return [_Chosen(one.ids.clone(), one.scores.clone(), one.wanted.clone()) for one in chosen]

    def _compute(self, bucket: _Bucket, gates: HeadGates | None) -> _Chosen:
        """The step itself: no shape in it depends on the data, and the host is not asked anything."""
        tokens, forced = self._tokens[: bucket.rows], self._forced[: bucket.rows]
        if self._fused is None or gates is not None:
            logits = self.transformer.decode_step(tokens, self.cache, [], gates)  # (R, V)
        else:
            logits = self._fused.logits(tokens)
            if bucket.candidates == 1:
                ids, best, wanted = self._fused.choose(logits, forced)
                tokens.copy_(ids)
                return _Chosen(ids[:, None], best[:, None], wanted)
        scores = torch.log_softmax(logits.float(), dim=-1)
        if bucket.candidates == 1:
            best, ids = scores.max(dim=-1, keepdim=True)
        else:
            best, ids = scores.topk(bucket.candidates, dim=-1)
        tokens.copy_(ids[:, 0])
        return _Chosen(ids, best, scores.gather(1, forced[:, None])[:, 0])

    def _capture(self, bucket: _Bucket) -> None:
        """Record the step as a graph. Nobody takes part meanwhile, so nobody gets longer."""
        self.cache.active.zero_()
        beside = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        beside.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(beside):
            for _ in range(_WARM_UP):
                self._compute(bucket, None)
        torch.cuda.current_stream(self.device).wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._graphs.pool, capture_error_mode="thread_local"):
            chosen = [self._compute(bucket, None) for _ in range(bucket.steps)]
        self._graphs.record(bucket, graph, chosen)

    def _send(self, slots: Sequence[int], tokens: Sequence[int], forced: Sequence[int]) -> None:
        """Tokens, forced tokens and who takes part, in one copy. The one before has ended: its results were read."""
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
        """Have room for so many positions. Storage moves only after what is being written beside has arrived in it."""
        if positions > self.cache.room and self._beside is not None:
            torch.cuda.current_stream(self.device).wait_stream(self._beside)
        if self.cache.ensure(positions):
            self._graphs.clear()

    def _stream(self) -> AbstractContextManager[Any]:
        """Where newcomers are encoded: beside the steps under way, after everything that was queued before those."""
        if self._before is None:
            if self._beside is not None:
                torch.cuda.current_stream(self.device).wait_stream(self._beside)
            return nullcontext()
        self._beside.wait_event(self._before)
        return torch.cuda.stream(self._beside)

    def _gates(self, slots: Sequence[int]) -> HeadGates | None:
        masks = [self._masked.get(slot, ()) for slot in slots]
        return head_gates(self.transformer, masks) if any(masks) else None


def _to_host(tensor: Tensor) -> Tensor:
    """A copy in the host's memory; on a GPU it is queued, and an event after it tells when it is done."""
    if not tensor.is_cuda:
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


@torch.inference_mode()
def disagreement(backend: GraphedBackend) -> str | None:
    """Decode a few tokens here and on a plain TorchBackend: one sentence if the results differ by more than rounding,
    None if they agree. Raises RuntimeError where a step cannot be captured."""
    slots = [0, 1, 2][: backend.slots]
    plain = TorchBackend(backend.transformer, len(slots))
    config = backend.transformer.config
    sources = [[token % config.vocab_size for token in range(1, 6 + 3 * slot)] for slot in slots]
    for each in (backend, plain):
        each.prefill(sources, slots)
    worst = 0.0
    for step in range(_SEEN + 4):
        tokens = [(7 * step + slot) % config.vocab_size for slot in slots]
        left, right = (each.step(slots, tokens, 1, tokens) for each in (backend, plain))
        worst = max(worst, float(np.abs(left.scores - right.scores).max()))
    backend.free(slots)
    if not backend.captured:
        return "No step was captured."
    exact = next(backend.transformer.parameters()).dtype == torch.float32
    return None if worst < (_EXACT if exact else _ROUNDED) else f"Replayed steps differ from plain ones by {worst:.3g}."
