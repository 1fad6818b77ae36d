"""Decode steps with fixed shapes: one CUDA graph per bucket of slots and positions, behind can_use and replay.

A step runs over slots 0 .. R-1, those that take part and those that do not, and over the first P positions of their keys
and values, where R and P are the smallest buckets that hold everybody. Lengths live on the device and mask what is not
there, so one graph serves every mixture of lengths. With `SlotAttention` each row reads its own length only, and P is
simply all the room there is: one graph per R. Next tokens are chosen on the device and may be fed back there,
so that several greedy steps run before the host looks (`burst`). Without capture, as on a CPU, the same steps run
kernel by kernel.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.attention import MultiHeadAttention
from model.config import ModelConfig
from model.inference import MaskedHeads, TorchBackend, head_gates
from model.kv_cache import KVCache
from model.search import StepOutput
from model.transformer import DecoderLayer, HeadGates, Transformer

_ROWS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_FIRST_ROOM = 128
_LEAST_POSITIONS = 32
_CANDIDATES = (1, 8, 16, 64)
_SEEN = 3
"""A bucket is captured when it is wanted the _SEEN-th time: capturing costs as much as many steps."""
_WARM_UP = 2
_EXACT, _ROUNDED = 1e-2, 0.2
"""Log-probabilities of a replayed step may differ by so much from plain torch: in float32, in half precision."""


class StaticCache(KVCache):
    """A KVCache whose storage stays where it is and whose step reads lengths from the device.

    `view(rows, positions)` says which part the next step sees. Slots of it that take no part write to their next
    position, which is written again before anybody reads it, and do not get longer.
    """

    def __init__(self, config: ModelConfig, slots: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(config, slots, dtype, device)
        self.room = 0
        self._longest = config.max_length
        self.ensure(min(_FIRST_ROOM, config.max_length))
        self.live = torch.zeros(slots, dtype=torch.long, device=device)  # lengths on the device
        self.sources = torch.ones(slots, dtype=torch.long, device=device)  # at least 1: a softmax over nothing is NaN
        self.active = torch.zeros(slots, dtype=torch.long, device=device)  # 1 for slots that take part in a step
        self._every = torch.arange(slots, device=device)
        self._seen = (0, 0)

    def ensure(self, positions: int) -> bool:
        """Have room for so many positions; True if the storage moved, so that no graph of before may be used."""
        if positions <= self.room:
            return False
        self.room = min(self._longest, max(positions, 2 * self.room))
        self.self_keys, self.self_values, self.cross_keys, self.cross_values = (
            self._moved(tensor) for tensor in (self.self_keys, self.self_values, self.cross_keys, self.cross_values)
        )
        return True

    def view(self, rows: int, positions: int) -> None:
        """The next step sees slots 0 .. rows-1 and so many of their positions."""
        self._seen = (rows, positions)

    def own_lengths(self) -> Tensor:
        """Positions that each row of the step attends to in its own history, the one it writes included: (R,)."""
        return self.live[: self._seen[0]] + 1

    def source_extents(self) -> Tensor:
        """Positions that each row of the step attends to in its source: (R,)."""
        return self.sources[: self._seen[0]]

    def begin(self, slots: list[int], source_lengths: list[int]) -> None:
        super().begin(slots, source_lengths)
        self._mirror(slots)

    def open_step(self, rows: list[int]) -> None:
        """Nothing to prepare: `view` said what is seen."""

    def step_positions(self) -> Tensor:
        return self.live[: self._seen[0]]

    def step_masks(self) -> tuple[Tensor, Tensor]:
        rows, positions = self._seen
        time = torch.arange(positions, device=self._device)[None, :]
        return time <= self.live[:rows, None], time < self.sources[:rows, None]

    def write_self(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        rows, positions = self._seen
        at = self.live[:rows]
        self.self_keys[layer, self._every[:rows], :, at] = key.to(self._dtype)
        self.self_values[layer, self._every[:rows], :, at] = value.to(self._dtype)
        return self.self_keys[layer, :rows, :, :positions], self.self_values[layer, :rows, :, :positions]

    def read_cross(self, layer: int) -> tuple[Tensor, Tensor]:
        rows, positions = self._seen
        return self.cross_keys[layer, :rows, :, :positions], self.cross_values[layer, :rows, :, :positions]

    def close_step(self) -> None:
        """Whoever took part is one position longer, on the device; the host's lengths are the backend's business."""
        self.live[: self._seen[0]] += self.active[: self._seen[0]]

    def reorder(self, targets: list[int], origins: list[int]) -> None:
        super().reorder(targets, origins)
        self._mirror(targets)

    def free(self, slots: list[int]) -> None:
        super().free(slots)
        self._mirror(slots)

    def _mirror(self, slots: list[int]) -> None:
        if slots:
            index = torch.tensor(slots, device=self._device)
            self.live[index] = torch.tensor([self.lengths[slot] for slot in slots], device=self._device)
            sources = [max(1, self.source_lengths[slot]) for slot in slots]
            self.sources[index] = torch.tensor(sources, device=self._device)

    def _moved(self, tensor: Tensor) -> Tensor:
        moved = self._allocate(self.room)
        moved[:, :, :, : tensor.shape[3]] = tensor
        return moved


Kernel = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Attention of one query per row over the row's own length (kernels.attend_slots)."""


class SlotAttention(MultiHeadAttention):
    """The attention of a decode step through a kernel that knows each row's length and needs no mask."""

    def __init__(self, original: MultiHeadAttention, kernel: Kernel, lengths: Callable[[], Tensor]) -> None:
        torch.nn.Module.__init__(self)
        self.heads = original.heads
        self.query, self.key, self.value, self.output = original.query, original.key, original.value, original.output
        self._kernel, self._lengths = kernel, lengths

    def attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, gate: Tensor | None = None) -> Tensor:
        """query (R, H, 1, D), key and value (R, H, P, D) -> (R, 1, d_model). `bias` only masks, which lengths do here."""
        return self.merge(self._kernel(query.squeeze(2), key, value, self._lengths()).unsqueeze(2), gate)


def with_slot_attention(transformer: Transformer, cache: StaticCache, kernel: Kernel) -> Transformer:
    """A copy that shares every weight and decodes steps over `cache` through `kernel`. Raises ValueError for models whose
    attention is more than a mask (ALiBi, a window)."""
    if transformer.config.positions == "alibi" or transformer.config.window is not None:
        raise ValueError("The slot kernel has no biases: it cannot run ALiBi or restricted self-attention.")
    shared = {id(tensor): tensor for tensor in (*transformer.parameters(), *transformer.buffers())}
    copied = copy.deepcopy(transformer, shared)
    for layer in copied.decoder:
        if isinstance(layer, DecoderLayer):
            layer.self_attention = SlotAttention(layer.self_attention, kernel, cache.own_lengths)
            layer.cross_attention = SlotAttention(layer.cross_attention, kernel, cache.source_extents)
    return copied


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Shape of a step: slots, positions, candidates per row."""

    rows: int
    positions: int
    candidates: int


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
        self._graphs: dict[_Bucket, tuple[torch.cuda.CUDAGraph, _Chosen]] = {}
        self._wanted: dict[_Bucket, int] = {}
        self._pool: Any = None

    def can_use(self, bucket: _Bucket) -> bool:
        return bucket in self._graphs

    def due(self, bucket: _Bucket) -> bool:
        """Count a wish for this bucket; True when it should be captured now."""
        self._wanted[bucket] = self._wanted.get(bucket, 0) + 1
        return self._capture and bucket not in self._graphs and self._wanted[bucket] >= _SEEN

    def replay(self, bucket: _Bucket) -> _Chosen:
        graph, chosen = self._graphs[bucket]
        graph.replay()
        return chosen

    def record(self, bucket: _Bucket, graph: torch.cuda.CUDAGraph, chosen: _Chosen) -> None:
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


class GraphedBackend(TorchBackend):
    """A TorchBackend whose steps have fixed shapes, replayed from CUDA graphs where `capture` allows it, with attention
    through `kernel` if one is given. `captured` counts the steps that were replayed. Raises ValueError for a model that
    the kernel cannot run.
    """

    cache: StaticCache

    def __init__(self, transformer: Transformer, slots: int, *, capture: bool, kernel: Kernel | None = None) -> None:
        super().__init__(transformer, slots)
        parameter = next(transformer.parameters())
        self.cache = StaticCache(transformer.config, slots, parameter.dtype, self.device)
        self._stepper = self.transformer
        if kernel is not None:
            self._stepper = with_slot_attention(self.transformer, self.cache, kernel)
        self._own_lengths = kernel is not None
        self.captured = 0
        self._graphs = StepGraphs(capture)
        self._tokens = torch.zeros(slots, dtype=torch.long, device=self.device)
        self._forced = torch.zeros(slots, dtype=torch.long, device=self.device)
        self._staging = torch.zeros(3, slots, dtype=torch.long, pin_memory=self.device.type == "cuda")

    @torch.inference_mode()
    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int], masked_heads: Sequence[MaskedHeads] = ()
    ) -> None:
        """Encode the sources as one batch and write their cross-attention keys and values."""
        self._room(max(len(source) for source in sources))
        super().prefill(sources, slots, masked_heads)

    @torch.inference_mode()
    def step(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]
    ) -> StepOutput:
        """One token for each row; the `candidates` likeliest next tokens of each."""
        chosen = self._run(slots, tokens, candidates, forced, 1)[0]
        ids, scores, wanted = (tensor.cpu().numpy() for tensor in (chosen.ids, chosen.scores, chosen.wanted))
        rows = np.array(slots)
        ids, scores = ids[rows, :candidates], scores[rows, :candidates]
        for row, token in enumerate(forced):
            if token >= 0:
                ids[row], scores[row] = np.roll(ids[row], 1), np.roll(scores[row], 1)
                ids[row, 0], scores[row, 0] = token, wanted[slots[row]]
        return StepOutput(ids, scores)

    @torch.inference_mode()
    def burst(self, slots: Sequence[int], tokens: Sequence[int], steps: int) -> list[StepOutput]:
        """`steps` greedy steps, each fed with the likeliest token of the one before; the host looks once, at the end."""
        results = self._run(slots, tokens, 1, [-1] * len(slots), steps)
        ids = torch.stack([chosen.ids for chosen in results]).cpu().numpy()  # (steps, R, 1)
        scores = torch.stack([chosen.scores for chosen in results]).cpu().numpy()
        rows = np.array(slots)
        return [StepOutput(ids[step, rows], scores[step, rows]) for step in range(steps)]

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
            rows=next((rows for rows in _ROWS if max(slots) < rows <= self.slots), self.slots),
            positions=self.cache.room if self._own_lengths else min(positions, self.cache.room),
            candidates=min(vocabulary, next((c for c in _CANDIDATES if c >= candidates), candidates)),
        )
        gates = self._gates(range(bucket.rows))
        self.cache.view(bucket.rows, bucket.positions)
        if gates is None and self._graphs.due(bucket):
            self._capture(bucket)
        self._send(slots, tokens, forced)
        results = [self._once(bucket, gates, last=step == steps - 1) for step in range(steps)]
        for slot in slots:
            self.cache.lengths[slot] += steps
        return results

    def _once(self, bucket: _Bucket, gates: HeadGates | None, *, last: bool) -> _Chosen:
        if gates is not None or not self._graphs.can_use(bucket):
            return self._compute(bucket, gates)
        self.captured += 1
        chosen = self._graphs.replay(bucket)
        if last:
            return chosen
        return _Chosen(chosen.ids.clone(), chosen.scores.clone(), chosen.wanted)

    def _compute(self, bucket: _Bucket, gates: HeadGates | None) -> _Chosen:
        """The step itself: no shape in it depends on the data, and the host is not asked anything."""
        logits = self._stepper.decode_step(self._tokens[: bucket.rows], self.cache, [], gates)  # (R, V)
        scores = torch.log_softmax(logits.float(), dim=-1)
        if bucket.candidates == 1:
            best, ids = scores.max(dim=-1, keepdim=True)
        else:
            best, ids = scores.topk(bucket.candidates, dim=-1)
        wanted = scores.gather(1, self._forced[: bucket.rows, None])[:, 0]
        self._tokens[: bucket.rows].copy_(ids[:, 0])
        return _Chosen(ids, best, wanted)

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
            chosen = self._compute(bucket, None)
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
        if self.cache.ensure(positions):
            self._graphs.clear()

    def _gates(self, slots: Sequence[int]) -> HeadGates | None:
        masks = [self._masked.get(slot, ()) for slot in slots]
        return head_gates(self.transformer, masks) if any(masks) else None


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
